/* Compiled, never run, where the headers are installed: the numbers and calls of modules/gpu
 * against cublasLt.h, nvrtc.h and nccl.h. */
#if __has_include(<cublasLt.h>)
#include <cublasLt.h>
_Static_assert(CUBLASLT_MATMUL_DESC_TRANSA == 3 && CUBLASLT_MATMUL_DESC_TRANSB == 4, "transposes");
_Static_assert(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER == 17 &&
                   CUBLASLT_MATMUL_DESC_B_SCALE_POINTER == 18,
               "scales");
_Static_assert(CUBLASLT_MATMUL_DESC_A_SCALE_MODE == 31 && CUBLASLT_MATMUL_DESC_B_SCALE_MODE == 32 &&
                   CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F == 0 &&
                   CUBLASLT_MATMUL_MATRIX_SCALE_VEC16_UE4M3 == 1 &&
                   CUBLASLT_MATMUL_MATRIX_SCALE_VEC32_UE8M0 == 2 &&
                   CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F == 4 &&
                   CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F == 5 && CUDA_R_4F_E2M1 == 33,
               "how scales lie");
_Static_assert(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT == 5 &&
                   CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET == 6,
               "batches");
_Static_assert(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES == 1, "workspace");
_Static_assert(CUDA_R_32F == 0 && CUDA_R_16F == 2 && CUDA_R_16BF == 14 && CUDA_R_8F_E4M3 == 28,
               "types");
_Static_assert(CUBLAS_COMPUTE_32F == 68 && CUBLAS_OP_N == 0 && CUBLAS_OP_T == 1, "products");
_Static_assert(sizeof(cublasLtMatmulHeuristicResult_t) <= 512, "room for what is chosen");
_Static_assert(sizeof(cublasStatus_t) == sizeof(int), "a status is an int");

int orr_check_cublaslt(void);
int orr_check_cublaslt(void) {
    cublasLtHandle_t lt = NULL;
    cublasLtMatmulDesc_t desc = NULL;
    cublasLtMatrixLayout_t layout = NULL;
    cublasLtMatmulPreference_t preference = NULL;
    cublasLtMatmulHeuristicResult_t chosen;
    int found = 0;
    float one = 1;
    return (int)cublasLtCreate(&lt) +
           (int)cublasLtMatmulDescCreate(&desc, CUBLAS_COMPUTE_32F, CUDA_R_32F) +
           (int)cublasLtMatmulDescSetAttribute(desc, CUBLASLT_MATMUL_DESC_TRANSA, &found, 4) +
           (int)cublasLtMatrixLayoutCreate(&layout, CUDA_R_16BF, 1, 1, 1) +
           (int)cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &found,
                                                 4) +
           (int)cublasLtMatmulPreferenceCreate(&preference) +
           (int)cublasLtMatmulPreferenceSetAttribute(
               preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &found, 8) +
           (int)cublasLtMatmulAlgoGetHeuristic(lt, desc, layout, layout, layout, layout, preference,
                                               1, &chosen, &found) +
           (int)cublasLtMatmul(lt, desc, &one, &one, layout, &one, layout, &one, &one, layout, &one,
                               layout, &chosen.algo, NULL, 0, NULL) +
           (int)cublasLtMatmulPreferenceDestroy(preference) +
           (int)cublasLtMatrixLayoutDestroy(layout) + (int)cublasLtMatmulDescDestroy(desc) +
           (int)cublasLtDestroy(lt);
}
#endif

#if __has_include(<nvrtc.h>)
#include <nvrtc.h>
int orr_check_nvrtc(void);
int orr_check_nvrtc(void) {
    nvrtcProgram program = NULL;
    size_t bytes = 0;
    char code[1];
    return (int)nvrtcCreateProgram(&program, "", "", 0, NULL, NULL) +
           (int)nvrtcCompileProgram(program, 0, NULL) + (int)nvrtcGetPTXSize(program, &bytes) +
           (int)nvrtcGetPTX(program, code) + (int)nvrtcDestroyProgram(&program);
}
#endif

#if __has_include(<nccl.h>)
#include <nccl.h>
_Static_assert(ncclBfloat16 == 9 && ncclSum == 0 && ncclSuccess == 0, "types and operations");
_Static_assert(sizeof(ncclResult_t) == sizeof(int), "a status is an int");
int orr_check_nccl(void);
int orr_check_nccl(void) {
    ncclComm_t comm = NULL;
    int version = 0;
    return (int)ncclGetVersion(&version) + (int)ncclCommInitAll(&comm, 1, &version) +
           (int)ncclGroupStart() + (int)ncclGroupEnd() +
           (int)ncclAllReduce(NULL, NULL, 1, ncclBfloat16, ncclSum, comm, NULL) +
           (int)ncclAllGather(NULL, NULL, 1, ncclBfloat16, comm, NULL) +
           (int)ncclReduceScatter(NULL, NULL, 1, ncclBfloat16, ncclSum, comm, NULL) +
           (int)ncclBroadcast(NULL, NULL, 1, ncclBfloat16, 0, comm, NULL) +
           (int)ncclSend(NULL, 1, ncclBfloat16, 0, comm, NULL) +
           (int)ncclRecv(NULL, 1, ncclBfloat16, 0, comm, NULL) + (int)ncclCommDestroy(comm);
}
#endif
extern int orr_check_nothing; /* not empty where none is installed */
