/*
 * The exports of HNS's computenetwork.dll that hcsshim's hcn package uses for
 * networks, endpoints and namespaces (Microsoft's HCN API reference).
 */
#include "hnsd.h"

#define EXPORT __declspec(dllexport) HRESULT WINAPI

/* The exports of the three kinds of objects have the same shapes. */
#define OBJECT(Kind, Kinds, KIND, KINDS)                                                             \
	EXPORT HcnEnumerate##Kinds(const WCHAR *query, WCHAR **ids, WCHAR **record)                  \
	{                                                                                            \
		return hnsd_do(&(struct hnsd_call){                                                  \
			.op = OP_ENUMERATE_##KINDS, .text = {query}, .output = ids, .record = record}); \
	}                                                                                            \
	EXPORT HcnOpen##Kind(const GUID *id, void **object, WCHAR **record)                          \
	{                                                                                            \
		return hnsd_do(&(struct hnsd_call){                                                  \
			.op = OP_OPEN_##KIND, .id = id, .handle = object, .record = record});        \
	}                                                                                            \
	EXPORT HcnQuery##Kind##Properties(void *object, const WCHAR *query, WCHAR **out, WCHAR **record) \
	{                                                                                            \
		return hnsd_do(&(struct hnsd_call){.op = OP_QUERY_##KIND##_PROPERTIES, .object = object, \
			.text = {query}, .output = out, .record = record});                          \
	}                                                                                            \
	EXPORT HcnModify##Kind(void *object, const WCHAR *settings, WCHAR **record)                  \
	{                                                                                            \
		return hnsd_do(&(struct hnsd_call){                                                  \
			.op = OP_MODIFY_##KIND, .object = object, .text = {settings}, .record = record}); \
	}                                                                                            \
	EXPORT HcnDelete##Kind(const GUID *id, WCHAR **record)                                       \
	{                                                                                            \
		return hnsd_do(&(struct hnsd_call){.op = OP_DELETE_##KIND, .id = id, .record = record}); \
	}                                                                                            \
	EXPORT HcnClose##Kind(void *object)                                                          \
	{                                                                                            \
		return hnsd_do(&(struct hnsd_call){.op = OP_CLOSE_##KIND, .object = object});        \
	}

OBJECT(Network, Networks, NETWORK, NETWORKS)
OBJECT(Endpoint, Endpoints, ENDPOINT, ENDPOINTS)
OBJECT(Namespace, Namespaces, NAMESPACE, NAMESPACES)

EXPORT HcnCreateNetwork(const GUID *id, const WCHAR *settings, void **network, WCHAR **record)
{
	return hnsd_do(&(struct hnsd_call){
		.op = OP_CREATE_NETWORK, .id = id, .text = {settings}, .handle = network, .record = record});
}

EXPORT HcnCreateEndpoint(void *network, const GUID *id, const WCHAR *settings, void **endpoint, WCHAR **record)
{
	return hnsd_do(&(struct hnsd_call){.op = OP_CREATE_ENDPOINT, .object = network, .id = id,
		.text = {settings}, .handle = endpoint, .record = record});
}

EXPORT HcnCreateNamespace(const GUID *id, const WCHAR *settings, void **space, WCHAR **record)
{
	return hnsd_do(&(struct hnsd_call){
		.op = OP_CREATE_NAMESPACE, .id = id, .text = {settings}, .handle = space, .record = record});
}
