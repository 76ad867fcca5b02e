// A Windows service "hns" that only runs: under Wine the agent looks at its
// process id, as it does at that of the real one.
#include <windows.h>

static SERVICE_STATUS_HANDLE handle;
static HANDLE stop;

static void report(DWORD state)
{
	SERVICE_STATUS status = {
		.dwServiceType = SERVICE_WIN32_OWN_PROCESS,
		.dwCurrentState = state,
		.dwControlsAccepted = SERVICE_ACCEPT_STOP,
	};
	SetServiceStatus(handle, &status);
}

static DWORD WINAPI control(DWORD code, DWORD type, void *data, void *context)
{
	(void)type, (void)data, (void)context;
	if (code == SERVICE_CONTROL_STOP)
		SetEvent(stop);
	return NO_ERROR;
}

static void WINAPI run(DWORD argc, LPWSTR *argv)
{
	(void)argc, (void)argv;
	stop = CreateEventW(NULL, TRUE, FALSE, NULL);
	handle = RegisterServiceCtrlHandlerExW(L"hns", control, NULL);
	report(SERVICE_RUNNING);
	WaitForSingleObject(stop, INFINITE);
	report(SERVICE_STOPPED);
}

int main(void)
{
	SERVICE_TABLE_ENTRYW table[] = {{L"hns", run}, {NULL, NULL}};
	return !StartServiceCtrlDispatcherW(table);
}
