/* The one export that Go programs need at their start, which Wine 8 lacks. */
#include <windows.h>

/* RtlGenRandom by its real name (ntsecapi.h renames it). */
BOOLEAN WINAPI SystemFunction036(void *buffer, ULONG length);

__declspec(dllexport) BOOL WINAPI ProcessPrng(unsigned char *data, SIZE_T length)
{
	while (length > 0) {
		ULONG n = length > MAXLONG ? MAXLONG : (ULONG)length;

		if (!SystemFunction036(data, n))
			return FALSE;
		data += n, length -= n;
	}
	return TRUE;
}
