/* The client's side of the wire; see hnsd.h. */
#include "hnsd.h"

#include <objbase.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define UNAVAILABLE HRESULT_FROM_WIN32(RPC_S_SERVER_UNAVAILABLE)
#define CALL_FAILED HRESULT_FROM_WIN32(RPC_S_CALL_FAILED)

#define REQUEST_HEADER 44 /* with the length */
#define REPLY_HEADER 20   /* without it */
#define MAX_IDLE 8

/*
 * Idle connections. A call has one for itself, so that one that hangs holds up
 * nobody; taking them up again saves the ports of the machine.
 */
static struct {
	CRITICAL_SECTION lock; /* guards following */
	SOCKET idle[MAX_IDLE];
	int len;
} pool;

static INIT_ONCE once = INIT_ONCE_STATIC_INIT;

/* Not in DllMain: Winsock must not be started under the loader's lock. */
static BOOL CALLBACK start(INIT_ONCE *o, void *param, void **context)
{
	WSADATA data;

	(void)o, (void)param, (void)context;
	InitializeCriticalSection(&pool.lock);
	return WSAStartup(MAKEWORD(2, 2), &data) == 0;
}

static SOCKET dial(void)
{
	char text[64], *colon;
	struct sockaddr_in addr = {.sin_family = AF_INET};
	BOOL on = TRUE;
	DWORD n = GetEnvironmentVariableA("HNSD_ADDR", text, sizeof text);
	SOCKET s;

	if (n == 0 || n >= sizeof text || !(colon = strchr(text, ':')))
		return INVALID_SOCKET;
	*colon = 0;
	addr.sin_addr.s_addr = inet_addr(text);
	addr.sin_port = htons((u_short)strtoul(colon + 1, NULL, 10));
	s = socket(AF_INET, SOCK_STREAM, 0);
	if (s == INVALID_SOCKET)
		return s;
	if (connect(s, (struct sockaddr *)&addr, sizeof addr) != 0) {
		closesocket(s);
		return INVALID_SOCKET;
	}
	setsockopt(s, IPPROTO_TCP, TCP_NODELAY, (char *)&on, sizeof on);
	return s;
}

/* An idle connection on which something can be read was closed by the server. */
static BOOL stale(SOCKET s)
{
	fd_set readable;
	struct timeval now = {0, 0};

	FD_ZERO(&readable);
	FD_SET(s, &readable);
	return select(0, &readable, NULL, NULL, &now) != 0;
}

static SOCKET take(void)
{
	for (;;) {
		SOCKET s = INVALID_SOCKET;

		EnterCriticalSection(&pool.lock);
		if (pool.len > 0)
			s = pool.idle[--pool.len];
		LeaveCriticalSection(&pool.lock);
		if (s == INVALID_SOCKET)
			return dial();
		if (!stale(s))
			return s;
		closesocket(s);
	}
}

static void give_back(SOCKET s)
{
	EnterCriticalSection(&pool.lock);
	if (pool.len < MAX_IDLE) {
		pool.idle[pool.len++] = s;
		s = INVALID_SOCKET;
	}
	LeaveCriticalSection(&pool.lock);
	if (s != INVALID_SOCKET)
		closesocket(s);
}

static BOOL send_all(SOCKET s, const char *p, size_t n)
{
	while (n > 0) {
		int sent = send(s, p, n > INT_MAX ? INT_MAX : (int)n, 0);

		if (sent <= 0)
			return FALSE;
		p += sent, n -= sent;
	}
	return TRUE;
}

static BOOL recv_all(SOCKET s, char *p, size_t n)
{
	while (n > 0) {
		int got = recv(s, p, n > INT_MAX ? INT_MAX : (int)n, 0);

		if (got <= 0)
			return FALSE;
		p += got, n -= got;
	}
	return TRUE;
}

static char *put(char *p, const void *from, size_t n)
{
	if (n > 0)
		memcpy(p, from, n);
	return p + n;
}

/* Returns the request in memory of malloc, or NULL. */
static char *encode(const struct hnsd_call *c, size_t *size)
{
	static const GUID none;
	uint32_t len[2], length, op = c->op, pid = GetCurrentProcessId();
	uint64_t handle = (uint64_t)(uintptr_t)c->object;
	char *request, *p;

	for (int i = 0; i < 2; i++)
		len[i] = c->text[i] ? (uint32_t)(wcslen(c->text[i]) * sizeof(WCHAR)) : 0;
	*size = REQUEST_HEADER + (size_t)len[0] + len[1];
	length = (uint32_t)(*size - sizeof length);
	p = request = malloc(*size);
	if (!request)
		return NULL;
	p = put(p, &length, sizeof length);
	p = put(p, &op, sizeof op);
	p = put(p, &pid, sizeof pid);
	p = put(p, c->id ? c->id : &none, sizeof none);
	p = put(p, &handle, sizeof handle);
	p = put(p, len, sizeof len);
	p = put(p, c->text[0], len[0]);
	put(p, c->text[1], len[1]);
	return request;
}

/* Hands a string of the reply to the caller; FALSE: out of memory. */
static BOOL hand_over(WCHAR **to, const char *from, int32_t len)
{
	if (!to || len < 0)
		return TRUE;
	*to = CoTaskMemAlloc((size_t)len + sizeof(WCHAR));
	if (!*to)
		return FALSE;
	memcpy(*to, from, len);
	(*to)[len / sizeof(WCHAR)] = 0;
	return TRUE;
}

static HRESULT decode(const struct hnsd_call *c, const char *reply, uint32_t length)
{
	HRESULT hr;
	uint64_t handle;
	int32_t record, output;
	const char *text = reply + REPLY_HEADER;
	int64_t texts;

	memcpy(&hr, reply, sizeof hr);
	memcpy(&handle, reply + 4, sizeof handle);
	memcpy(&record, reply + 12, sizeof record);
	memcpy(&output, reply + 16, sizeof output);
	texts = (int64_t)(record > 0 ? record : 0) + (output > 0 ? output : 0);
	if (texts != (int64_t)length - REPLY_HEADER)
		return CALL_FAILED;
	if (c->handle)
		*c->handle = (void *)(uintptr_t)handle;
	if (!hand_over(c->record, text, record))
		return E_OUTOFMEMORY;
	if (!hand_over(c->output, text + (record > 0 ? record : 0), output))
		return E_OUTOFMEMORY;
	return hr;
}

/* Sends the request and hands the reply over; FALSE: the connection broke. */
static BOOL exchange(SOCKET s, const struct hnsd_call *c, const char *request, size_t size, HRESULT *hr)
{
	struct {
		uint32_t length;
		char rest[REPLY_HEADER];
	} head;
	char *reply;
	BOOL ok;

	if (!send_all(s, request, size) || !recv_all(s, (char *)&head, sizeof head) || head.length < REPLY_HEADER)
		return FALSE;
	reply = malloc(head.length);
	if (!reply)
		return FALSE;
	memcpy(reply, head.rest, REPLY_HEADER);
	ok = recv_all(s, reply + REPLY_HEADER, head.length - REPLY_HEADER);
	if (ok)
		*hr = decode(c, reply, head.length);
	free(reply);
	return ok;
}

HRESULT hnsd_do(const struct hnsd_call *c)
{
	size_t size;
	char *request;
	SOCKET s;
	HRESULT hr;

	if (c->handle)
		*c->handle = NULL;
	if (c->output)
		*c->output = NULL;
	if (c->record)
		*c->record = NULL;
	if (!InitOnceExecuteOnce(&once, start, NULL, NULL) || (s = take()) == INVALID_SOCKET)
		return UNAVAILABLE;
	request = encode(c, &size);
	if (!request) {
		give_back(s);
		return E_OUTOFMEMORY;
	}
	if (exchange(s, c, request, size, &hr)) {
		give_back(s);
	} else {
		closesocket(s);
		hr = CALL_FAILED;
	}
	free(request);
	return hr;
}
