/* Compiled, never run, where cuda.h is installed: the calls of modules/gpu with the types that it
 * declares for them, against the real prototypes. */
#include <cuda.h>
#include <stddef.h>
#include <stdint.h>

_Static_assert(CUDA_SUCCESS == 0 && CUDA_ERROR_OUT_OF_MEMORY == 2, "statuses");
_Static_assert(sizeof(CUdeviceptr) == sizeof(uintptr_t) && sizeof(CUdevice) == sizeof(int),
               "pointers and devices");
_Static_assert(sizeof(CUresult) == sizeof(int), "a status is an int");

int orr_check_cuda(void);
int orr_check_cuda(void) {
    int number = 0;
    char name[8] = "";
    size_t bytes = 0;
    float ms = 0;
    CUdeviceptr pointer = 0;
    CUcontext context = NULL;
    CUevent event = NULL;
    CUmodule module = NULL;
    CUfunction function = NULL;
    void *arguments[1] = {NULL};
    unsigned u = 1;
    return (int)cuInit(0) + (int)cuDriverGetVersion(&number) + (int)cuDeviceGetCount(&number) +
           (int)cuDeviceGet(&number, 0) + (int)cuDeviceGetName(name, (int)sizeof name, number) +
           (int)cuDevicePrimaryCtxRetain(&context, number) + (int)cuCtxSetCurrent(context) +
           (int)cuDevicePrimaryCtxRelease(number) + (int)cuMemGetInfo(&bytes, &bytes) +
           (int)cuMemAlloc(&pointer, bytes) + (int)cuMemsetD8(pointer, (unsigned char)0, bytes) +
           (int)cuMemFree(pointer) + (int)cuCtxSynchronize() + (int)cuEventCreate(&event, 0) +
           (int)cuEventRecord(event, NULL) + (int)cuEventSynchronize(event) +
           (int)cuEventElapsedTime(&ms, event, event) + (int)cuEventDestroy(event) +
           (int)cuModuleLoadData(&module, name) +
           (int)cuModuleGetFunction(&function, module, "stream") + (int)cuModuleUnload(module) +
           (int)cuLaunchKernel(function, u, u, u, u, u, u, 0, NULL, arguments, NULL);
}
