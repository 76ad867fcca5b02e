/*
 * The wire between the DLLs and the package hnsd. Everything is little endian,
 * strings are UTF-16LE without a final NUL, lengths are in bytes.
 *
 *   request: u32 length of the rest, u32 op, u32 process, 16 bytes GUID,
 *            u64 handle, u32 len1, u32 len2, string1, string2
 *   reply:   u32 length of the rest, u32 HRESULT, u64 handle,
 *            i32 record length, i32 output length (-1: NULL), record, output
 *
 * The numbers of the operations are those of ops in hnsd/objects.go.
 */
#ifndef HNSD_H
#define HNSD_H

#include <winsock2.h>
#include <windows.h>

enum hnsd_op {
	OP_HNS_CALL = 1,

	OP_ENUMERATE_NETWORKS = 10,
	OP_CREATE_NETWORK,
	OP_OPEN_NETWORK,
	OP_MODIFY_NETWORK,
	OP_QUERY_NETWORK_PROPERTIES,
	OP_DELETE_NETWORK,
	OP_CLOSE_NETWORK,

	OP_ENUMERATE_ENDPOINTS = 20,
	OP_CREATE_ENDPOINT,
	OP_OPEN_ENDPOINT,
	OP_MODIFY_ENDPOINT,
	OP_QUERY_ENDPOINT_PROPERTIES,
	OP_DELETE_ENDPOINT,
	OP_CLOSE_ENDPOINT,

	OP_ENUMERATE_NAMESPACES = 30,
	OP_CREATE_NAMESPACE,
	OP_OPEN_NAMESPACE,
	OP_MODIFY_NAMESPACE,
	OP_QUERY_NAMESPACE_PROPERTIES,
	OP_DELETE_NAMESPACE,
	OP_CLOSE_NAMESPACE,
};

/* One call. What is NULL is not sent, or not wanted. */
struct hnsd_call {
	enum hnsd_op op;
	const GUID *id;
	void *object; /* handle that goes in */
	const WCHAR *text[2];
	void **handle;  /* handle that comes out */
	WCHAR **output; /* CoTaskMemAlloc; the caller of the export frees it */
	WCHAR **record; /* likewise; always written, NULL when there is none */
};

/*
 * Sends the call to the server at HNSD_ADDR and waits for the reply, however
 * long it takes. RPC_S_SERVER_UNAVAILABLE as an HRESULT: there is no server;
 * RPC_S_CALL_FAILED: it went away during the call, which may have been done.
 */
HRESULT hnsd_do(const struct hnsd_call *call);

#endif
