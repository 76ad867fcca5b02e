/* The one export of vmcompute.dll that hcn uses: the older API of HNS. */
#include "hnsd.h"

#include <stdlib.h>
#include <wchar.h>

/* The wire has two strings: the first is method, a blank, path. */
__declspec(dllexport) HRESULT WINAPI HNSCall(
	const WCHAR *method, const WCHAR *path, const WCHAR *request, WCHAR **response)
{
	size_t n = wcslen(method) + 1 + wcslen(path) + 1;
	WCHAR *what = malloc(n * sizeof(WCHAR));
	HRESULT hr;

	if (!what) {
		*response = NULL;
		return E_OUTOFMEMORY;
	}
	wcscpy(what, method);
	wcscat(what, L" ");
	wcscat(what, path);
	hr = hnsd_do(&(struct hnsd_call){.op = OP_HNS_CALL, .text = {what, request}, .output = response});
	free(what);
	return hr;
}
