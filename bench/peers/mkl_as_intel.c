// Preloaded into a peer on AMD CPUs: PyTorch's MKL then takes the kernels that the CPU's features allow, AVX-512 ones too.
// Without it MKL takes AVX2 kernels there, at 40 % of the peak.
int mkl_serv_intel_cpu_true(void) { return 1; }
int mkl_serv_intel_cpu(void) { return 1; }
