// Floating point: rounding, conversions, halves, doubles.
//
// run axpy grid=(1) block=(64) args: n:u32=50 a:f32=1.75 x:f32[n]=random(1) y:f32[n]=random(2)
// expect y[i] = fma(a, x[i], y[i])
//
// run quotient grid=(1) block=(64) args: x:f32[64]=random(3) y:f32[64]=random(4) out:f32[64]=0
// expect out[i] = x[i] / y[i]
//
// run quotient_wide grid=(1) block=(64) args: x:f64[64]=random(5) y:f64[64]=random(6) out:f64[64]=0
// expect out[i] = fma(x[i], y[i], x[i] / y[i])
//
// run root grid=(1) block=(64) args: x:f64[64]=random(7, 0, 100000) out:f64[64]=0
// expect out[i] = x[i]
//
// run whole grid=(1) block=(64) args: x:f32[64]=random(8, -1000, 1000) out:s32[64]=0
// expect out[i] = s32(x[i] / 8.0)
//
// run halves grid=(1) block=(64) args: x:f32[64]=random(9, -500, 500) out:f32[64]=0
// expect out[i] = x[i] * 2.0 + 1.0
//
// run limits grid=(1) block=(64) args: x:f32[64]=random(10) y:f32[64]=random(11) out:f32[64]=0
// expect out[i] = min(max(x[i], y[i]), 0.5)
#include "device.h"

GLOBAL axpy(u32 n, float a, const float* x, float* y) {
    u32 i = index();
    if (i < n) y[i] = __builtin_fmaf(a, x[i], y[i]);
}

GLOBAL quotient(const float* x, const float* y, float* out) { out[index()] = x[index()] / y[index()]; }

GLOBAL quotient_wide(const double* x, const double* y, double* out) {
    out[index()] = x[index()] / y[index()] + x[index()] * y[index()];
}

GLOBAL root(const double* x, double* out) { out[index()] = __nvvm_sqrt_rn_d(x[index()] * x[index()]); }

GLOBAL whole(const float* x, int* out) { out[index()] = (int)(x[index()] / 8.0f); }

GLOBAL halves(const float* x, float* out) {
    _Float16 half = (_Float16)x[index()];
    out[index()] = (float)(half * (_Float16)2 + (_Float16)1);
}

GLOBAL limits(const float* x, const float* y, float* out) {
    out[index()] = __builtin_fminf(__builtin_fmaxf(x[index()], y[index()]), 0.5f);
}
