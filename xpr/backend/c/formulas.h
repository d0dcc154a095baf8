/* Elementwise functions, written by `python -m tests.formulas_in_c` from the formulas in xpr/primitives/vectorized/. */

#include <math.h>
#include <stdint.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline))

INLINE int32_t int32_of_float32(float x) {
    int32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

INLINE float float32_of_int32(int32_t x) {
    float bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

INLINE int64_t int64_of_float64(double x) {
    int64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

INLINE double float64_of_int64(int64_t x) {
    double bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

INLINE uint32_t uint32_of_int32(int32_t x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

INLINE float select_float32(int32_t condition, float x, float y) {
    return float32_of_int32((int32_of_float32(x) & condition) | (int32_of_float32(y) & ~condition));
}

INLINE double select_float64(int64_t condition, double x, double y) {
    return float64_of_int64((int64_of_float64(x) & condition) | (int64_of_float64(y) & ~condition));
}

INLINE int32_t select_int32(int32_t condition, int32_t x, int32_t y) {
    return (x & condition) | (y & ~condition);
}

INLINE int64_t select_int64(int64_t condition, int64_t x, int64_t y) {
    return (x & condition) | (y & ~condition);
}

INLINE uint32_t select_uint32(int32_t condition, uint32_t x, uint32_t y) {
    return (x & condition) | (y & ~condition);
}

INLINE float sin_float32(float x) {
    const double v0 = (double)x;
    const double v1 = fabs(v0);
    const int64_t v2 = -(int64_t)(v1 >= 2251799813685248.0);
    const int64_t v3 = -(int64_t)(v1 >= 1.5111572745182865e+23);
    const double v4 = select_float64(v3, 3.583247400060393e-17, select_float64(v2, 5.390696000695527e-09, 0.31830988451838493));
    const double v5 = select_float64(v3, 5.55471402075008e-25, select_float64(v2, 3.583247441419424e-17,
        1.665405729989189e-09));
    const double v6 = select_float64(v3, 5.090832193749854e-33, select_float64(v2, 1.418811008893263e-25,
        8.076898940446425e-18));
    const int64_t v7 = -(int64_t)(v1 >= 1.0141204801825835e+31);
    const double v8 = v0 * select_float64(v7, 1.3826520146280356e-24, v4);
    const double v9 = v0 * select_float64(v7, 6.534724161658901e-41, v6);
    const double v10 = rint(v8);
    const double v11 = (v8 - v10) + (v0 * select_float64(v7, 5.090832128402613e-33, v5));
    const double v12 = rint(v11 + v9);
    const double v13 = (v11 - v12) + v9;
    const int64_t v14 = int64_of_float64(float64_of_int64(int64_of_float64((v10 + v12) + 6755399441055744.0) << 63LL));
    const double v15 = v13 * v13;
    const double v16 = (((((-0.007021885528279369) * v15) + 0.08204631852102535) * v15) + (-0.5992512979609722)) * v15;
    const double v17 = ((((v16 + 2.5501632377059673) * v15) + (-5.167712762042138)) * v15) + 3.1415926535230163;
    return select_float32(-(int32_t)(fabsf(x) < 0.0001220703125f), x, (float)(float64_of_int64(int64_of_float64(v13) ^ (v14 &
        INT64_MIN)) * v17));
}

INLINE double sin_float64(double x) {
    const double v0 = rint(x * 0.6366197723675814);
    const double v1 = x - (v0 * 1.5707963267341256);
    const double v2 = v0 * 6.077100506303966e-11;
    const double v3 = v1 - v2;
    const double v4 = v1 - v3;
    const double v5 = v0 * 2.0222662487111665e-21;
    const double v6 = v3 - v5;
    const double v7 = v3 - v6;
    const double v8 = v0 * 8.478427660368898e-32;
    const double v9 = v6 - v8;
    const double v10 = v6 - v9;
    const double v11 = ((0.0 + ((v1 - (v3 + v4)) + (v4 - v2))) + ((v3 - (v6 + v7)) + (v7 - v5))) + ((v6 - (v9 + v10)) + (v10 -
        v8));
    const double v12 = v9 + v11;
    const int64_t v13 = int64_of_float64(v0 + 6755399441055744.0);
    const double v14 = v11 - (v12 - v9);
    const double v15 = v12 * v12;
    const double v16 = 0.5 * v15;
    const double v17 = (((1.589619762327333e-10 * v15) + (-2.505074721798498e-08)) * v15) + 2.755731361801608e-06;
    const double v18 = (((((v17 * v15) + (-0.00019841269829580163)) * v15) + 0.008333333333322108) * v15) +
        (-0.1666666666666663);
    const double v19 = 1.0 - v16;
    const double v20 = ((((-1.1358513930887365e-11) * v15) + 2.087570041566246e-09) * v15) + (-2.755731417623671e-07);
    const double v21 = (((((v20 * v15) + 2.4801587288841387e-05) * v15) + (-0.001388888888887304)) * v15) +
        0.041666666666666595;
    const double v22 = select_float64(-(int64_t)((v13 & 1LL) == 1LL), v19 + (((1.0 - v19) - v16) + (((v15 * v15) * v21) - (v12 *
        v14))), v12 + (((v12 * v15) * v18) + (v14 - (v16 * v14))));
    const int64_t v23 = int64_of_float64(v22) ^ (int64_of_float64(float64_of_int64((v13 << 62LL) & INT64_MIN)) & INT64_MIN);
    return select_float64(-(int64_t)(fabs(x) < 7.450580596923828e-09), x, float64_of_int64(v23));
}

INLINE int64_t sin_is_beyond_float64(double x) {
    return -(int64_t)(fabs(x) >= 1048576.0);
}

INLINE float cos_float32(float x) {
    const double v0 = (double)x;
    const double v1 = fabs(v0);
    const int64_t v2 = -(int64_t)(v1 >= 2251799813685248.0);
    const int64_t v3 = -(int64_t)(v1 >= 1.5111572745182865e+23);
    const double v4 = select_float64(v3, 3.583247400060393e-17, select_float64(v2, 5.390696000695527e-09, 0.31830988451838493));
    const double v5 = select_float64(v3, 5.55471402075008e-25, select_float64(v2, 3.583247441419424e-17,
        1.665405729989189e-09));
    const double v6 = select_float64(v3, 5.090832193749854e-33, select_float64(v2, 1.418811008893263e-25,
        8.076898940446425e-18));
    const int64_t v7 = -(int64_t)(v1 >= 1.0141204801825835e+31);
    const double v8 = v0 * select_float64(v7, 1.3826520146280356e-24, v4);
    const double v9 = v0 * select_float64(v7, 6.534724161658901e-41, v6);
    const double v10 = rint(v8);
    const double v11 = (v8 - v10) + (v0 * select_float64(v7, 5.090832128402613e-33, v5));
    const double v12 = rint((v11 + v9) - 0.5);
    const double v13 = ((v11 - v12) - 0.5) + v9;
    const int64_t v14 = int64_of_float64(float64_of_int64((int64_of_float64((v10 + v12) + 6755399441055744.0) + 1LL) << 63LL));
    const double v15 = v13 * v13;
    const double v16 = (((((-0.007021885528279369) * v15) + 0.08204631852102535) * v15) + (-0.5992512979609722)) * v15;
    const double v17 = ((((v16 + 2.5501632377059673) * v15) + (-5.167712762042138)) * v15) + 3.1415926535230163;
    return (float)(float64_of_int64(int64_of_float64(v13) ^ (v14 & INT64_MIN)) * v17);
}

INLINE double cos_float64(double x) {
    const double v0 = rint(x * 0.6366197723675814);
    const double v1 = x - (v0 * 1.5707963267341256);
    const double v2 = v0 * 6.077100506303966e-11;
    const double v3 = v1 - v2;
    const double v4 = v1 - v3;
    const double v5 = v0 * 2.0222662487111665e-21;
    const double v6 = v3 - v5;
    const double v7 = v3 - v6;
    const double v8 = v0 * 8.478427660368898e-32;
    const double v9 = v6 - v8;
    const double v10 = v6 - v9;
    const double v11 = ((0.0 + ((v1 - (v3 + v4)) + (v4 - v2))) + ((v3 - (v6 + v7)) + (v7 - v5))) + ((v6 - (v9 + v10)) + (v10 -
        v8));
    const double v12 = v9 + v11;
    const double v13 = v11 - (v12 - v9);
    const double v14 = v12 * v12;
    const double v15 = 0.5 * v14;
    const double v16 = (((1.589619762327333e-10 * v14) + (-2.505074721798498e-08)) * v14) + 2.755731361801608e-06;
    const double v17 = (((((v16 * v14) + (-0.00019841269829580163)) * v14) + 0.008333333333322108) * v14) +
        (-0.1666666666666663);
    const double v18 = 1.0 - v15;
    const double v19 = ((((-1.1358513930887365e-11) * v14) + 2.087570041566246e-09) * v14) + (-2.755731417623671e-07);
    const double v20 = (((((v19 * v14) + 2.4801587288841387e-05) * v14) + (-0.001388888888887304)) * v14) +
        0.041666666666666595;
    const int64_t v21 = int64_of_float64(v0 + 6755399441055744.0) + 1LL;
    const double v22 = select_float64(-(int64_t)((v21 & 1LL) == 1LL), v18 + (((1.0 - v18) - v15) + (((v14 * v14) * v20) - (v12 *
        v13))), v12 + (((v12 * v14) * v17) + (v13 - (v15 * v13))));
    const int64_t v23 = int64_of_float64(v22) ^ (int64_of_float64(float64_of_int64((v21 << 62LL) & INT64_MIN)) & INT64_MIN);
    return float64_of_int64(v23);
}

INLINE int64_t cos_is_beyond_float64(double x) {
    return -(int64_t)(fabs(x) >= 1048576.0);
}

INLINE float tan_float32(float x) {
    const double v0 = (double)x;
    const double v1 = fabs(v0);
    const int64_t v2 = -(int64_t)(v1 >= 2251799813685248.0);
    const int64_t v3 = -(int64_t)(v1 >= 1.5111572745182865e+23);
    const double v4 = select_float64(v3, 7.166494800120787e-17, select_float64(v2, 1.0781392001391055e-08, 0.6366197690367699));
    const double v5 = select_float64(v3, 1.110942804150016e-24, select_float64(v2, 7.166494882838848e-17,
        3.330811459978378e-09));
    const double v6 = select_float64(v3, 1.0181664387499708e-32, select_float64(v2, 2.837622017786526e-25,
        1.615379788089285e-17));
    const int64_t v7 = -(int64_t)(v1 >= 1.0141204801825835e+31);
    const double v8 = v0 * select_float64(v7, 2.7653040292560713e-24, v4);
    const double v9 = v0 * select_float64(v7, 1.3069448323317802e-40, v6);
    const double v10 = rint(v8);
    const double v11 = (v8 - v10) + (v0 * select_float64(v7, 1.0181664256805226e-32, v5));
    const double v12 = rint(v11 + v9);
    const double v13 = (v11 - v12) + v9;
    const int64_t v14 = -(int64_t)((int64_of_float64((v10 + v12) + 6755399441055744.0) & 1LL) == 1LL);
    const double v15 = v13 * v13;
    const double v16 = ((((3.871327618192347 * v15) + (-0.008684526901105577)) * v15) + 1.5714556618692184) * v15;
    const double v17 = (((((v16 + 1.2362997617474236) * v15) + 1.2758752333730181) * v15) + 1.2750040083595024) * v15;
    const double v18 = v13 * (((v17 + 1.2919291377551283) * v15) + 1.5707963249386558);
    return select_float32(-(int32_t)(fabsf(x) < 0.0001220703125f), x, (float)(select_float64(v14, -1.0, v18) /
        select_float64(v14, v18, 1.0)));
}

INLINE double tan_float64(double x) {
    const double v0 = rint(x * 0.6366197723675814);
    const double v1 = x - (v0 * 1.5707963267341256);
    const double v2 = v0 * 6.077100506303966e-11;
    const double v3 = v1 - v2;
    const double v4 = v1 - v3;
    const double v5 = v0 * 2.0222662487111665e-21;
    const double v6 = v3 - v5;
    const double v7 = v3 - v6;
    const double v8 = v0 * 8.478427660368898e-32;
    const double v9 = v6 - v8;
    const double v10 = v6 - v9;
    const double v11 = ((0.0 + ((v1 - (v3 + v4)) + (v4 - v2))) + ((v3 - (v6 + v7)) + (v7 - v5))) + ((v6 - (v9 + v10)) + (v10 -
        v8));
    const double v12 = v9 + v11;
    const double v13 = v11 - (v12 - v9);
    const double v14 = v12 * v12;
    const double v15 = 0.5 * v14;
    const double v16 = (((1.589619762327333e-10 * v14) + (-2.505074721798498e-08)) * v14) + 2.755731361801608e-06;
    const double v17 = (((((v16 * v14) + (-0.00019841269829580163)) * v14) + 0.008333333333322108) * v14) +
        (-0.1666666666666663);
    const double v18 = ((v12 * v14) * v17) + (v13 - (v15 * v13));
    const double v19 = v12 + v18;
    const double v20 = 1.0 - v15;
    const double v21 = ((((-1.1358513930887365e-11) * v14) + 2.087570041566246e-09) * v14) + (-2.755731417623671e-07);
    const double v22 = (((((v21 * v14) + 2.4801587288841387e-05) * v14) + (-0.001388888888887304)) * v14) +
        0.041666666666666595;
    const double v23 = ((1.0 - v20) - v15) + (((v14 * v14) * v22) - (v12 * v13));
    const double v24 = v20 + v23;
    const double v25 = v18 - (v19 - v12);
    const double v26 = v23 - (v24 - v20);
    const int64_t v27 = -(int64_t)((int64_of_float64(v0 + 6755399441055744.0) & 1LL) == 1LL);
    const double v28 = select_float64(v27, -v24, v19) * (1.0 / select_float64(v27, v19, v24));
    const double v29 = select_float64(v27, ((v24 + (v28 * v19)) + (v26 + (v28 * v25))) * v28, (v19 - (v28 * v24)) + (v25 - (v28
        * v26)));
    return select_float64(-(int64_t)(fabs(x) < 7.450580596923828e-09), x, v28 + (v29 * (2.414213562373095 - (1.4142135623730951
        * v24))));
}

INLINE int64_t tan_is_beyond_float64(double x) {
    return -(int64_t)(fabs(x) >= 1048576.0);
}

INLINE float asin_float32(float x) {
    const float v0 = fabsf(x);
    const int32_t v1 = -(int32_t)(v0 <= 0.5f);
    const float v2 = select_float32(v1, x * x, 0.5f - (0.5f * v0));
    const float v3 = select_float32(v1, v0, sqrtf(v2));
    const float v4 = ((((0.04216642305254936f * v2) + 0.02418077178299427f) * v2) + 0.045469772070646286f) * v2;
    const float v5 = (v3 * v2) * (((v4 + 0.07495306432247162f) * v2) + 0.16666752099990845f);
    const float v6 = 2.0f * v3;
    const float v7 = 1.5707963705062866f - v6;
    const float v8 = select_float32(v1, v3 + v5, v7 + (((1.5707963705062866f - v7) - v6) - (2.0f * (v5 -
        (-2.1855694143368964e-08f)))));
    return select_float32(-(int32_t)(v0 < 0.0001220703125f), x, float32_of_int32(int32_of_float32(v8) ^ (int32_of_float32(x) &
        INT32_MIN)));
}

INLINE double asin_float64(double x) {
    const double v0 = fabs(x);
    const int64_t v1 = -(int64_t)(v0 <= 0.5);
    const double v2 = select_float64(v1, x * x, 0.5 - (0.5 * v0));
    const double v3 = select_float64(v1, v0, sqrt(v2));
    const double v4 = ((((0.032653958614007036 * v2) + (-0.021038577501835392)) * v2) + 0.021734650653170488) * v2;
    const double v5 = ((((v4 + 0.003695530515316712) * v2) + 0.010783050581916807) * v2) + 0.011398428145448725;
    const double v6 = (((((v5 * v2) + 0.013980877804075859) * v2) + 0.01735160740314636) * v2) + 0.02237221523462338;
    const double v7 = (((((v6 * v2) + 0.030381942699381655) * v2) + 0.044642857174778935) * v2) + 0.07499999999970634;
    const double v8 = (v3 * v2) * ((v7 * v2) + 0.1666666666666676);
    const double v9 = select_float64(v1, v3 + v8, 1.5707963267948966 - (2.0 * (v3 + (v8 - 3.061616997868383e-17))));
    return select_float64(-(int64_t)(v0 < 7.450580596923828e-09), x, float64_of_int64(int64_of_float64(v9) ^
        (int64_of_float64(x) & INT64_MIN)));
}

INLINE float acos_float32(float x) {
    const float v0 = fabsf(x);
    const int32_t v1 = -(int32_t)(v0 <= 0.5f);
    const float v2 = select_float32(v1, x * x, 0.5f - (0.5f * v0));
    const float v3 = select_float32(v1, v0, sqrtf(v2));
    const float v4 = ((((0.04216642305254936f * v2) + 0.02418077178299427f) * v2) + 0.045469772070646286f) * v2;
    const float v5 = (v3 * v2) * (((v4 + 0.07495306432247162f) * v2) + 0.16666752099990845f);
    const int32_t v6 = int32_of_float32(x) & INT32_MIN;
    const float v7 = float32_of_int32(int32_of_float32(v3) ^ v6) + (float32_of_int32(int32_of_float32(v5) ^ v6) -
        (-4.371138828673793e-08f));
    const float v8 = select_float32(-(int32_t)(x < 0.0f), 3.1415927410125732f - (2.0f * (v3 + (v5 -
        (-4.371138828673793e-08f)))), 2.0f * (v3 + v5));
    return select_float32(v1, 1.5707963705062866f - v7, v8);
}

INLINE double acos_float64(double x) {
    const double v0 = fabs(x);
    const int64_t v1 = -(int64_t)(v0 <= 0.5);
    const double v2 = select_float64(v1, x * x, 0.5 - (0.5 * v0));
    const double v3 = select_float64(v1, v0, sqrt(v2));
    const double v4 = ((((0.032653958614007036 * v2) + (-0.021038577501835392)) * v2) + 0.021734650653170488) * v2;
    const double v5 = ((((v4 + 0.003695530515316712) * v2) + 0.010783050581916807) * v2) + 0.011398428145448725;
    const double v6 = (((((v5 * v2) + 0.013980877804075859) * v2) + 0.01735160740314636) * v2) + 0.02237221523462338;
    const double v7 = (((((v6 * v2) + 0.030381942699381655) * v2) + 0.044642857174778935) * v2) + 0.07499999999970634;
    const double v8 = (v3 * v2) * ((v7 * v2) + 0.1666666666666676);
    const int64_t v9 = int64_of_float64(x) & INT64_MIN;
    const double v10 = float64_of_int64(int64_of_float64(v3) ^ v9) + (float64_of_int64(int64_of_float64(v8) ^ v9) -
        6.123233995736766e-17);
    const double v11 = select_float64(-(int64_t)(x < 0.0), 3.141592653589793 - (2.0 * (v3 + (v8 - 6.123233995736766e-17))), 2.0
        * (v3 + v8));
    return select_float64(v1, 1.5707963267948966 - v10, v11);
}

INLINE float atan_float32(float x) {
    const float v0 = fabsf(x);
    const float v1 = 1.0f / v0;
    const int32_t v2 = -(int32_t)(v0 > 1.0f);
    const float v3 = select_float32(v2, -v1, v0);
    const float v4 = v3 * v3;
    const float v5 = select_float32(-(int32_t)(v0 < 4.0f), ((v1 * v0) - 1.0f) * v1, 0.0f) * (1.0f - (0.5f * v4));
    const float v6 = 1.5707963705062866f - v1;
    const float v7 = ((((-0.0017728348029777408f) * v4) + 0.010828153230249882f) * v4) + (-0.031029468402266502f);
    const float v8 = (((((v7 * v4) + 0.05782202258706093f) * v4) + (-0.08396361023187637f)) * v4) + 0.10950067639350891f;
    const float v9 = (((((v8 * v4) + (-0.14263902604579926f)) * v4) + 0.19998523592948914f) * v4) + (-0.33333298563957214f);
    const float v10 = select_float32(v2, ((1.5707963705062866f - v6) - v1) + (v5 + (-4.371138828673793e-08f)), v3);
    const int32_t v11 = int32_of_float32(select_float32(v2, v6, 0.0f) + (((v3 * v4) * v9) + v10)) ^ (int32_of_float32(x) &
        INT32_MIN);
    return select_float32(-(int32_t)(v0 < 0.0001220703125f), x, float32_of_int32(v11));
}

INLINE double atan_float64(double x) {
    const double v0 = fabs(x);
    const int64_t v1 = -(int64_t)(v0 > 0.4375);
    const int64_t v2 = -(int64_t)(v0 > 0.6875);
    const double v3 = select_float64(v2, 3.061616997868383e-17, select_float64(v1, 2.2698777452961687e-17, 0.0));
    const int64_t v4 = -(int64_t)(v0 > 1.1875);
    const double v5 = select_float64(v4, 0.982793723247329, select_float64(v2, 0.7853981633974483, select_float64(v1,
        0.4636476090008061, 0.0)));
    const int64_t v6 = -(int64_t)(v0 > 2.4375);
    const double v7 = select_float64(v6, INFINITY, select_float64(v4, 1.5, select_float64(v2, 1.0, select_float64(v1, 0.5,
        0.0))));
    const int64_t v8 = -(int64_t)(v7 == INFINITY);
    const double v9 = select_float64(v8, -1.0, v0 - v7) / select_float64(v8, v0, 1.0 + (v7 * v0));
    const double v10 = v9 * v9;
    const double v11 = ((((0.01367681782544307 * v10) + (-0.03189825568165856)) * v10) + 0.04432088711735378) * v10;
    const double v12 = ((((v11 + (-0.051998341866018476)) * v10) + 0.05873970156877165) * v10) + (-0.06665896753782719);
    const double v13 = (((((v12 * v10) + 0.07692259070714345) * v10) + (-0.09090907033075049)) * v10) + 0.11111111055471082;
    const double v14 = (((((v13 * v10) + (-0.14285714284830534)) * v10) + 0.19999999999992948) * v10) + (-0.33333333333333315);
    const double v15 = ((v9 * v10) * v14) + select_float64(v6, 6.123233995736766e-17, select_float64(v4, 1.3903311031230998e-17,
        v3));
    const int64_t v16 = int64_of_float64(select_float64(v6, 1.5707963267948966, v5) + (v9 + v15)) ^ (int64_of_float64(x) &
        INT64_MIN);
    return select_float64(-(int64_t)(v0 < 7.450580596923828e-09), x, float64_of_int64(v16));
}

INLINE float atan2_float32(float y, float x) {
    const int32_t v0 = int32_of_float32(y);
    const int32_t v1 = int32_of_float32(x);
    const int32_t v2 = v0 & 2147483647;
    const int32_t v3 = v1 & 2147483647;
    const int32_t v4 = -(int32_t)(v2 > v3);
    const int32_t v5 = -(int32_t)(v1 < 0);
    const int32_t v6 = select_int32(v4, v2, v3);
    const int32_t v7 = select_int32(v4, v3, v2);
    const int32_t v8 = select_int32(-(int32_t)(v6 > 1), v6, 1);
    const int32_t v9 = select_int32(-(int32_t)(v8 < 8388608), int32_of_float32((float)v8) - 1249902592, v8);
    const int32_t v10 = (v9 & 8388607) | 1904214016;
    const int32_t v11 = v9 - select_int32(-(int32_t)(v7 < 8388608), int32_of_float32((float)v7) - 1249902592, v7);
    const int32_t v12 = -(int32_t)(uint32_of_int32(v11) <= 1056964608U) & (-(int32_t)(v6 < 2139095040) | -(int32_t)(v7 >=
        2139095040));
    const float v13 = float32_of_int32(select_int32(v12, v10 - v11, 0));
    const float v14 = float32_of_int32(v10);
    const float v15 = 1.0f / v14;
    const float v16 = select_float32(v4 ^ v5, -v13, v13);
    const float v17 = v16 * v15;
    const float v18 = v16 - (v17 * v14);
    const float v19 = v17 * v17;
    const float v20 = v17 * v19;
    const float v21 = 0.25f * v20;
    const float v22 = select_float32(v4, 1.5707963705062866f, select_float32(v5, 3.1415927410125732f, 0.0f));
    const float v23 = ((v22 + v17) - v21) + (v18 * v15);
    const float v24 = ((((v22 - v23) + v17) - v21) + (v22 * (-2.7827534054836178e-08f))) + (v18 * (v15 * (0.9570000171661377f -
        (0.5f * v19))));
    const float v25 = ((((-0.14263902604579926f) * v19) + 0.19998523592948914f) * v19) + (-0.08333298563957214f);
    const float v26 = ((((-0.0017728348029777408f) * v19) + 0.010828153230249882f) * v19) + (-0.031029468402266502f);
    const float v27 = (((((v26 * v19) + 0.05782202258706093f) * v19) + (-0.08396361023187637f)) * v19) + 0.10950067639350891f;
    const float v28 = float32_of_int32(int32_of_float32(v23 + (v24 + (v20 * (v25 + ((v20 * v20) * v27))))) ^ (v0 & INT32_MIN));
    return select_float32(-(int32_t)(v6 > 2139095040), NAN, v28);
}

INLINE double atan2_float64(double y, double x) {
    const double v0 = fabs(y);
    const double v1 = fabs(x);
    const int64_t v2 = -(int64_t)(v0 == INFINITY);
    const int64_t v3 = -(int64_t)(v1 == INFINITY);
    const int64_t v4 = v2 | v3;
    const double v5 = select_float64(-(int64_t)(v0 < 1.499696813895631e-241) & -(int64_t)(v1 < 1.499696813895631e-241),
        1.6069380442589903e+60, 1.0);
    const double v6 = select_float64(-(int64_t)(v0 > 1.0715086071862673e+301) | -(int64_t)(v1 > 1.0715086071862673e+301),
        7.888609052210118e-31, v5);
    const double v7 = select_float64(v4, select_float64(v2, 1.0, 0.0), v0 * v6);
    const double v8 = select_float64(v4, select_float64(v3, 1.0, 0.0), v1 * v6);
    const double v9 = select_float64(-(int64_t)((v7 + v8) == 0.0), 1.0, v8);
    const int64_t v10 = -(int64_t)(v7 > (v9 * 2.414213562373095));
    const int64_t v11 = -(int64_t)(v7 < (v9 * 0.41421356237309503));
    const double v12 = -v9;
    const double v13 = v7 + v12;
    const double v14 = v13 - v7;
    const double v15 = v7 + v9;
    const double v16 = v15 - v7;
    const double v17 = select_float64(v11, v7, select_float64(v10, v12, v13));
    const double v18 = select_float64(v11, v9, select_float64(v10, v7, v15));
    const double v19 = v17 / v18;
    const double v20 = v19 * v19;
    const double v21 = v19 * v18;
    const double v22 = float64_of_int64(int64_of_float64(v19) & (-4294967296LL));
    const int64_t v23 = int64_of_float64(v18);
    const double v24 = float64_of_int64(v23 & (-4294967296LL));
    const double v25 = v19 - v22;
    const double v26 = v18 - v24;
    const double v27 = select_float64(v11 | v10, 0.0, ((v7 - (v13 - v14)) + (v12 - v14)) - (v19 * ((v7 - (v15 - v16)) + (v9 -
        v16))));
    const double v28 = float64_of_int64(9213801887646613504LL - v23);
    const double v29 = ((v17 - v21) - (((((v22 * v24) - v21) + (v22 * v26)) + (v25 * v24)) + (v25 * v26))) + v27;
    const double v30 = select_float64(-(int64_t)(fabs(v17) < 1.1830521861667747e-271), 0.0, v29 * (v28 * (2.0 - (v18 * v28))));
    const double v31 = select_float64(v11, 0.0, select_float64(v10, 1.5707963267948966, 0.7853981633974483));
    const double v32 = select_float64(v11, 0.0, select_float64(v10, 6.123233995736766e-17, 3.061616997868383e-17));
    const double v33 = ((((0.01367681782544307 * v20) + (-0.03189825568165856)) * v20) + 0.04432088711735378) * v20;
    const double v34 = ((((v33 + (-0.051998341866018476)) * v20) + 0.05873970156877165) * v20) + (-0.06665896753782719);
    const double v35 = (((((v34 * v20) + 0.07692259070714345) * v20) + (-0.09090907033075049)) * v20) + 0.11111111055471082;
    const double v36 = (((((v35 * v20) + (-0.14285714284830534)) * v20) + 0.19999999999992948) * v20) + (-0.33333333333333315);
    const double v37 = v31 + v19;
    const double v38 = ((v31 - v37) + v19) + (((v19 * v20) * v36) + (v32 + (v30 * (1.0 - (0.87 * v20)))));
    const double v39 = 3.141592653589793 - v37;
    const int64_t v40 = -(int64_t)(int64_of_float64(x) < 0LL);
    const double v41 = select_float64(v40, (((3.141592653589793 - v39) - v37) - v38) + 1.2246467991473532e-16, v38);
    const int64_t v42 = int64_of_float64(select_float64(v40, v39, v37) + v41) ^ (int64_of_float64(y) & INT64_MIN);
    return select_float64(-(int64_t)(y != y) | -(int64_t)(x != x), NAN, float64_of_int64(v42));
}

INLINE float sinh_float32(float x) {
    const float v0 = fabsf(x);
    const float v1 = x * x;
    const float v2 = select_float32(-(int32_t)(v0 > 89.69999694824219f), 89.69999694824219f, v0);
    const float v3 = rintf(v2 * 1.4426950216293335f);
    const float v4 = (v2 - (v3 * 0.693145751953125f)) - (v3 * 1.428606765330187e-06f);
    const float v5 = float32_of_int32((int32_of_float32(v3 + 12582912.0f) + 125) << 23);
    const float v6 = ((((0.00019793855608440936f * v4) + 0.0013944755773991346f) * v4) + 0.00833349209278822f) * v4;
    const float v7 = v4 + ((v4 * v4) * (((((v6 + 0.04166629537940025f) * v4) + 0.1666666567325592f) * v4) + 0.5f));
    const float v8 = v5 + (v5 * v7);
    const float v9 = float32_of_int32(int32_of_float32(2.0f * (v8 - (0.0625f / v8))) ^ (int32_of_float32(x) & INT32_MIN));
    const float v10 = (x * v1) * ((((0.00020373340521473438f * v1) + 0.008330270648002625f) * v1) + 0.1666671633720398f);
    return select_float32(-(int32_t)(v0 < 0.0001220703125f), x, select_float32(-(int32_t)(v0 < 1.0f), x + v10, v9));
}

INLINE double sinh_float64(double x) {
    const double v0 = fabs(x);
    const double v1 = select_float64(-(int64_t)(v0 > 710.5), 710.5, v0);
    const double v2 = rint(v1 * 1.4426950408889634);
    const double v3 = v1 - (v2 * 0.6931471803691238);
    const double v4 = v2 * 1.9082149292705877e-10;
    const double v5 = v3 - v4;
    const double v6 = ((((2.0826626016406064e-09 * v5) + 2.511203684281884e-08) * v5) + 2.7557581851595033e-07) * v5;
    const double v7 = ((((v6 + 2.755723486191851e-06) * v5) + 2.4801586926629346e-05) * v5) + 0.00019841269896383806;
    const double v8 = (((((v7 * v5) + 0.001388888888911563) * v5) + 0.008333333333317034) * v5) + 0.041666666666666095;
    const double v9 = v5 + (((v3 - v5) - v4) + ((v5 * v5) * ((((v8 * v5) + 0.16666666666666682) * v5) + 0.5)));
    const double v10 = (1.0 + v9) * float64_of_int64((int64_of_float64((v2 - 2.0) + 6755399441055744.0) + 1023LL) << 52LL);
    const double v11 = v10 * 2.0;
    const double v12 = x * x;
    const double v13 = (((2.8482367743839983e-15 * v12) + 7.646482756872109e-13) * v12) + 1.6059050603324062e-10;
    const double v14 = (((((v13 * v12) + 2.505210834649324e-08) * v12) + 2.7557319224116357e-06) * v12) + 0.000198412698412696;
    const double v15 = float64_of_int64(int64_of_float64(v11 - (0.25 / v11)) ^ (int64_of_float64(x) & INT64_MIN));
    const double v16 = select_float64(-(int64_t)(v0 <= 1.0), x + ((x * v12) * ((((v14 * v12) + 0.008333333333333333) * v12) +
        0.16666666666666666)), v15);
    return select_float64(-(int64_t)(v0 < 7.450580596923828e-09), x, v16);
}

INLINE float cosh_float32(float x) {
    const float v0 = fabsf(x);
    const float v1 = select_float32(-(int32_t)(v0 > 89.69999694824219f), 89.69999694824219f, v0);
    const float v2 = rintf(v1 * 1.4426950216293335f);
    const float v3 = (v1 - (v2 * 0.693145751953125f)) - (v2 * 1.428606765330187e-06f);
    const float v4 = float32_of_int32((int32_of_float32(v2 + 12582912.0f) + 125) << 23);
    const float v5 = ((((0.00019793855608440936f * v3) + 0.0013944755773991346f) * v3) + 0.00833349209278822f) * v3;
    const float v6 = v3 + ((v3 * v3) * (((((v5 + 0.04166629537940025f) * v3) + 0.1666666567325592f) * v3) + 0.5f));
    const float v7 = v4 + (v4 * v6);
    return 2.0f * (v7 + (0.0625f / v7));
}

INLINE double cosh_float64(double x) {
    const double v0 = fabs(x);
    const double v1 = select_float64(-(int64_t)(v0 > 710.5), 710.5, v0);
    const double v2 = rint(v1 * 1.4426950408889634);
    const double v3 = v1 - (v2 * 0.6931471803691238);
    const double v4 = v2 * 1.9082149292705877e-10;
    const double v5 = v3 - v4;
    const double v6 = ((((2.0826626016406064e-09 * v5) + 2.511203684281884e-08) * v5) + 2.7557581851595033e-07) * v5;
    const double v7 = ((((v6 + 2.755723486191851e-06) * v5) + 2.4801586926629346e-05) * v5) + 0.00019841269896383806;
    const double v8 = (((((v7 * v5) + 0.001388888888911563) * v5) + 0.008333333333317034) * v5) + 0.041666666666666095;
    const double v9 = v5 + (((v3 - v5) - v4) + ((v5 * v5) * ((((v8 * v5) + 0.16666666666666682) * v5) + 0.5)));
    const double v10 = (1.0 + v9) * float64_of_int64((int64_of_float64((v2 - 2.0) + 6755399441055744.0) + 1023LL) << 52LL);
    const double v11 = v10 * 2.0;
    return v11 + (0.25 / v11);
}

INLINE float asinh_float32(float x) {
    const float v0 = fabsf(x);
    const float v1 = x * x;
    const float v2 = (((8.291487756650895e-05f * v1) + (-0.0007273429655469954f)) * v1) + 0.0029338577296584845f;
    const float v3 = (((((v2 * v1) + (-0.007399746682494879f)) * v1) + 0.013650123961269855f) * v1) + (-0.0209200382232666f);
    const float v4 = (((((v3 * v1) + 0.03001149371266365f) * v1) + (-0.044586848467588425f)) * v1) + 0.0749957263469696f;
    const int32_t v5 = -(int32_t)(v0 > 1099511627776.0f);
    const float v6 = v0 + select_float32(v5, 0.0f, sqrtf(v1 + 1.0f));
    const double v7 = (double)v6;
    const int64_t v8 = int64_of_float64(v7);
    const int64_t v9 = (v8 - 4604544271217802189LL) >> 52LL;
    const double v10 = float64_of_int64(v8 - (v9 << 52LL));
    const double v11 = (v10 - 1.0) * (1.0 / (v10 + 1.0));
    const double v12 = v11 * v11;
    const double v13 = ((((0.23617756739094517 * v12) + 0.28534970952302885) * v12) + 0.40000386104867364) * v12;
    const double v14 = (float64_of_int64(v9 + 4843621399236968448LL) - 6755399441055744.0) * 0.6931471805599453;
    const double v15 = select_float64(-(int64_t)(v7 < INFINITY), v14 + (v11 * (((v13 + 0.6666666523929964) * v12) +
        2.0000000000084324)), v7);
    const float v16 = select_float32(-(int32_t)(v6 < 0.0f), NAN, select_float32(-(int32_t)(v6 == 0.0f), -INFINITY, (float)v15));
    const int32_t v17 = int32_of_float32(v16 + select_float32(v5, 0.6931471824645996f, 0.0f)) ^ (int32_of_float32(x) &
        INT32_MIN);
    const float v18 = select_float32(-(int32_t)(v0 < 1.1799999475479126f), x + ((x * v1) * ((v4 * v1) +
        (-0.16666655242443085f))), float32_of_int32(v17));
    return select_float32(-(int32_t)(v0 < 0.0001220703125f), x, v18);
}

INLINE double asinh_float64(double x) {
    const double v0 = fabs(x);
    const int64_t v1 = -(int64_t)(v0 > 268435456.0);
    const double v2 = v0 * v0;
    const double v3 = select_float64(v1, v0, v0 + (v2 / (1.0 + sqrt(v2 + 1.0))));
    const double v4 = select_float64(v1, 0.0, 1.0);
    const double v5 = v4 + v3;
    const double v6 = v5 - v4;
    const int64_t v7 = int64_of_float64(v5);
    const int64_t v8 = (v7 - 4604544271217802189LL) >> 52LL;
    const double v9 = float64_of_int64(v7 - (v8 << 52LL)) - 1.0;
    const double v10 = (float64_of_int64(v8 + 4843621399236968448LL) - 6755399441055744.0) + select_float64(v1, 1.0, 0.0);
    const double v11 = (0.5 * v9) * v9;
    const double v12 = select_float64(-(int64_t)(v5 < 1.2676506002282294e+30), v5, 1.2676506002282294e+30);
    const double v13 = v9 + 2.0;
    const double v14 = 1.0 / (v13 * v12);
    const double v15 = (v10 * 1.9082149292705877e-10) + (select_float64(v1, 0.0, (v4 - (v5 - v6)) + ((v3 - v6) + 0.0)) * (v13 *
        v14));
    const double v16 = (v9 * v12) * v14;
    const double v17 = v16 * v16;
    const double v18 = (((((0.1325104517628035 * v17) + 0.1325015225984964) * v17) + 0.15387089097838486) * v17) +
        0.18181775707300832;
    const double v19 = (((((v18 * v17) + 0.22222222646219045) * v17) + 0.2857142856909015) * v17) + 0.4000000000000623;
    const double v20 = (v10 * 0.6931471803691238) + (v9 - (v11 - ((v16 * (v11 + (v17 * ((v19 * v17) + 0.6666666666666666)))) +
        v15)));
    const int64_t v21 = int64_of_float64(select_float64(-(int64_t)(v3 < INFINITY), v20, v3)) ^ (int64_of_float64(x) &
        INT64_MIN);
    return select_float64(-(int64_t)(v0 < 3.725290298461914e-09), x, float64_of_int64(v21));
}

INLINE float acosh_float32(float x) {
    const double v0 = (double)x;
    const double v1 = v0 + sqrt((v0 * v0) - 1.0);
    const int64_t v2 = int64_of_float64(v1);
    const int64_t v3 = (v2 - 4604544271217802189LL) >> 52LL;
    const double v4 = float64_of_int64(v2 - (v3 << 52LL));
    const double v5 = (v4 - 1.0) * (1.0 / (v4 + 1.0));
    const double v6 = v5 * v5;
    const double v7 = (((((0.23617756739094517 * v6) + 0.28534970952302885) * v6) + 0.40000386104867364) * v6) +
        0.6666666523929964;
    const double v8 = (float64_of_int64(v3 + 4843621399236968448LL) - 6755399441055744.0) * 0.6931471805599453;
    const double v9 = select_float64(-(int64_t)(v1 < INFINITY), v8 + (v5 * ((v7 * v6) + 2.0000000000084324)), v1);
    return select_float32(-(int32_t)(x < 1.0f), NAN, (float)v9);
}

INLINE double acosh_float64(double x) {
    const int64_t v0 = -(int64_t)(x > 268435456.0);
    const double v1 = x - 1.0;
    const double v2 = sqrt((2.0 * v1) + (v1 * v1));
    const double v3 = v1 + v2;
    const double v4 = select_float64(v0, x, v3);
    const double v5 = select_float64(v0, 0.0, 1.0);
    const double v6 = v5 + v4;
    const double v7 = v6 - v5;
    const int64_t v8 = int64_of_float64(v6);
    const int64_t v9 = (v8 - 4604544271217802189LL) >> 52LL;
    const double v10 = float64_of_int64(v8 - (v9 << 52LL)) - 1.0;
    const double v11 = (float64_of_int64(v9 + 4843621399236968448LL) - 6755399441055744.0) + select_float64(v0, 1.0, 0.0);
    const double v12 = (0.5 * v10) * v10;
    const double v13 = select_float64(-(int64_t)(v6 < 1.2676506002282294e+30), v6, 1.2676506002282294e+30);
    const double v14 = v10 + 2.0;
    const double v15 = 1.0 / (v14 * v13);
    const double v16 = select_float64(v0, 0.0, (v5 - (v6 - v7)) + ((v4 - v7) + (v1 - (v3 - v2)))) * (v14 * v15);
    const double v17 = (v10 * v13) * v15;
    const double v18 = v17 * v17;
    const double v19 = (((((0.1325104517628035 * v18) + 0.1325015225984964) * v18) + 0.15387089097838486) * v18) +
        0.18181775707300832;
    const double v20 = (((((v19 * v18) + 0.22222222646219045) * v18) + 0.2857142856909015) * v18) + 0.4000000000000623;
    const double v21 = (v17 * (v12 + (v18 * ((v20 * v18) + 0.6666666666666666)))) + ((v11 * 1.9082149292705877e-10) + v16);
    const double v22 = select_float64(-(int64_t)(v4 < INFINITY), (v11 * 0.6931471803691238) + (v10 - (v12 - v21)), v4);
    return select_float64(-(int64_t)(x < 1.0), NAN, v22);
}

INLINE float atanh_float32(float x) {
    const float v0 = fabsf(x);
    const float v1 = x * x;
    const float v2 = ((((0.17773883044719696f * v1) + 0.050647392868995667f) * v1) + 0.11841527372598648f) * v1;
    const float v3 = ((((v2 + 0.14220759272575378f) * v1) + 0.20002615451812744f) * v1) + 0.33333298563957214f;
    const float v4 = (1.0f + v0) / (1.0f - v0);
    const double v5 = (double)v4;
    const int64_t v6 = int64_of_float64(v5);
    const int64_t v7 = (v6 - 4604544271217802189LL) >> 52LL;
    const double v8 = float64_of_int64(v6 - (v7 << 52LL));
    const double v9 = (v8 - 1.0) * (1.0 / (v8 + 1.0));
    const double v10 = v9 * v9;
    const double v11 = ((((0.23617756739094517 * v10) + 0.28534970952302885) * v10) + 0.40000386104867364) * v10;
    const double v12 = (float64_of_int64(v7 + 4843621399236968448LL) - 6755399441055744.0) * 0.6931471805599453;
    const double v13 = select_float64(-(int64_t)(v5 < INFINITY), v12 + (v9 * (((v11 + 0.6666666523929964) * v10) +
        2.0000000000084324)), v5);
    const float v14 = select_float32(-(int32_t)(v4 < 0.0f), NAN, select_float32(-(int32_t)(v4 == 0.0f), -INFINITY, (float)v13));
    const float v15 = select_float32(-(int32_t)(v0 < 0.5f), x + ((x * v1) * v3), float32_of_int32(int32_of_float32(0.5f * v14) ^
        (int32_of_float32(x) & INT32_MIN)));
    return select_float32(-(int32_t)(v0 < 0.0001220703125f), x, v15);
}

INLINE double atanh_float64(double x) {
    const double v0 = fabs(x);
    const int64_t v1 = -(int64_t)(v0 < 0.5);
    const double v2 = v0 + v0;
    const double v3 = select_float64(v1, v2 * v0, v2) / (1.0 - v0);
    const double v4 = select_float64(v1, v2 + v3, v3);
    const int64_t v5 = -(int64_t)(v0 > INFINITY);
    const double v6 = select_float64(v5, 0.0, 1.0);
    const double v7 = v6 + v4;
    const double v8 = v7 - v6;
    const int64_t v9 = int64_of_float64(v7);
    const int64_t v10 = (v9 - 4604544271217802189LL) >> 52LL;
    const double v11 = float64_of_int64(v9 - (v10 << 52LL)) - 1.0;
    const double v12 = (float64_of_int64(v10 + 4843621399236968448LL) - 6755399441055744.0) + select_float64(v5, 1.0, 0.0);
    const double v13 = (0.5 * v11) * v11;
    const double v14 = select_float64(-(int64_t)(v7 < 1.2676506002282294e+30), v7, 1.2676506002282294e+30);
    const double v15 = v11 + 2.0;
    const double v16 = 1.0 / (v15 * v14);
    const double v17 = (v12 * 1.9082149292705877e-10) + (select_float64(v5, 0.0, (v6 - (v7 - v8)) + ((v4 - v8) + 0.0)) * (v15 *
        v16));
    const double v18 = (v11 * v14) * v16;
    const double v19 = v18 * v18;
    const double v20 = (((((0.1325104517628035 * v19) + 0.1325015225984964) * v19) + 0.15387089097838486) * v19) +
        0.18181775707300832;
    const double v21 = (((((v20 * v19) + 0.22222222646219045) * v19) + 0.2857142856909015) * v19) + 0.4000000000000623;
    const double v22 = (v12 * 0.6931471803691238) + (v11 - (v13 - ((v18 * (v13 + (v19 * ((v21 * v19) + 0.6666666666666666)))) +
        v17)));
    const int64_t v23 = int64_of_float64(0.5 * select_float64(-(int64_t)(v4 < INFINITY), v22, v4)) ^ (int64_of_float64(x) &
        INT64_MIN);
    return select_float64(-(int64_t)(v0 < 3.725290298461914e-09), x, select_float64(-(int64_t)(v0 > 1.0), NAN,
        float64_of_int64(v23)));
}

INLINE float expm1_float32(float x) {
    const float v0 = select_float32(-(int32_t)(x > 89.0f), 89.0f, select_float32(-(int32_t)(x < (-26.0f)), -26.0f, x));
    const float v1 = rintf(v0 * 1.4426950216293335f);
    const float v2 = v0 - (v1 * 0.693145751953125f);
    const float v3 = v1 * 1.428606765330187e-06f;
    const float v4 = v2 - v3;
    const float v5 = ((((0.00019793855608440936f * v4) + 0.0013944755773991346f) * v4) + 0.00833349209278822f) * v4;
    const float v6 = ((v4 * v4) * (((((v5 + 0.04166629537940025f) * v4) + 0.1666666567325592f) * v4) + 0.5f)) + ((v2 - v4) -
        v3);
    const float v7 = float32_of_int32((int32_of_float32(v1 + 12582912.0f) + 126) << 23);
    const float v8 = v7 * v4;
    const float v9 = v7 - 0.5f;
    const float v10 = v8 + v9;
    return select_float32(-(int32_t)(fabsf(x) < 1.4901161193847656e-08f), x, 2.0f * (v10 + ((v7 * v6) + (((v9 - v10) + v8) +
        ((v7 - v9) - 0.5f)))));
}

INLINE double expm1_float64(double x) {
    const double v0 = select_float64(-(int64_t)(x > 710.0), 710.0, select_float64(-(int64_t)(x < (-40.0)), -40.0, x));
    const double v1 = rint(v0 * 1.4426950408889634);
    const double v2 = v0 - (v1 * 0.6931471803691238);
    const double v3 = v1 * 1.9082149292705877e-10;
    const double v4 = v2 - v3;
    const double v5 = ((((2.0826626016406064e-09 * v4) + 2.511203684281884e-08) * v4) + 2.7557581851595033e-07) * v4;
    const double v6 = ((((v5 + 2.755723486191851e-06) * v4) + 2.4801586926629346e-05) * v4) + 0.00019841269896383806;
    const double v7 = (((((v6 * v4) + 0.001388888888911563) * v4) + 0.008333333333317034) * v4) + 0.041666666666666095;
    const double v8 = v4 + (((v2 - v4) - v3) + ((v4 * v4) * ((((v7 * v4) + 0.16666666666666682) * v4) + 0.5)));
    const double v9 = float64_of_int64((int64_of_float64((v1 - 1.0) + 6755399441055744.0) + 1023LL) << 52LL);
    return select_float64(-(int64_t)(fabs(x) < 5.551115123125783e-17), x, select_float64(-(int64_t)(v1 == 0.0), v8, 2.0 * ((v9 *
        v8) + (v9 - 0.5))));
}

INLINE float log1p_float32(float x) {
    const float v0 = select_float32(-(int32_t)(x > INFINITY), 0.0f, 1.0f);
    const float v1 = v0 + x;
    const float v2 = v1 - v0;
    const int32_t v3 = int32_of_float32(v1);
    const int32_t v4 = (v3 - 1060439283) >> 23;
    const float v5 = float32_of_int32(v3 - (v4 << 23)) - 1.0f;
    const float v6 = ((v0 - (v1 - v2)) + (x - v2)) * float32_of_int32(select_int32(-(int32_t)(v4 < 127), (127 - v4) << 23, 0));
    const float v7 = (float)v4;
    const float v8 = (0.5f * v5) * v5;
    const float v9 = v5 + 1.0f;
    const float v10 = v5 + 2.0f;
    const float v11 = 1.0f / (v9 * v10);
    const float v12 = (v5 * v9) * v11;
    const float v13 = v12 * v12;
    const float v14 = ((((0.23617756366729736f * v13) + 0.28534969687461853f) * v13) + 0.4000038504600525f) * v13;
    const float v15 = (v12 * (v8 + (v13 * (v14 + 0.6666666269302368f)))) + ((v7 * 1.428606765330187e-06f) + ((v6 * v10) * v11));
    const float v16 = select_float32(-(int32_t)(x < INFINITY), (v7 * 0.693145751953125f) + (v5 - (v8 - v15)), x);
    const float v17 = select_float32(-(int32_t)(x == (-1.0f)), -INFINITY, select_float32(-(int32_t)(x < (-1.0f)), NAN, v16));
    return select_float32(-(int32_t)(fabsf(x) < 5.960464477539063e-08f), x, v17);
}

INLINE double log1p_float64(double x) {
    const double v0 = fabs(x);
    const int64_t v1 = -(int64_t)(v0 > INFINITY);
    const double v2 = select_float64(v1, 0.0, 1.0);
    const double v3 = v2 + x;
    const double v4 = v3 - v2;
    const int64_t v5 = int64_of_float64(v3);
    const int64_t v6 = (v5 - 4604544271217802189LL) >> 52LL;
    const double v7 = float64_of_int64(v5 - (v6 << 52LL)) - 1.0;
    const double v8 = (float64_of_int64(v6 + 4843621399236968448LL) - 6755399441055744.0) + select_float64(v1, 1.0, 0.0);
    const double v9 = (0.5 * v7) * v7;
    const double v10 = select_float64(-(int64_t)(v3 < 1.2676506002282294e+30), v3, 1.2676506002282294e+30);
    const double v11 = v7 + 2.0;
    const double v12 = 1.0 / (v11 * v10);
    const double v13 = (v8 * 1.9082149292705877e-10) + (select_float64(v1, 0.0, (v2 - (v3 - v4)) + ((x - v4) + 0.0)) * (v11 *
        v12));
    const double v14 = (v7 * v10) * v12;
    const double v15 = v14 * v14;
    const double v16 = (((((0.1325104517628035 * v15) + 0.1325015225984964) * v15) + 0.15387089097838486) * v15) +
        0.18181775707300832;
    const double v17 = (((((v16 * v15) + 0.22222222646219045) * v15) + 0.2857142856909015) * v15) + 0.4000000000000623;
    const double v18 = (v8 * 0.6931471803691238) + (v7 - (v9 - ((v14 * (v9 + (v15 * ((v17 * v15) + 0.6666666666666666)))) +
        v13)));
    const double v19 = select_float64(-(int64_t)(x < (-1.0)), NAN, select_float64(-(int64_t)(x < INFINITY), v18, x));
    return select_float64(-(int64_t)(v0 < 1.1102230246251565e-16), x, select_float64(-(int64_t)(x == (-1.0)), -INFINITY, v19));
}

INLINE double log_float64(double x) {
    const double v0 = fabs(x);
    const int64_t v1 = int64_of_float64(v0);
    const int64_t v2 = -(int64_t)(v1 < 4503599627370496LL);
    const double v3 = select_float64(v2, float64_of_int64(v1 + 4841369599423283200LL) - 4503599627370496.0, v0);
    const int64_t v4 = int64_of_float64(v3);
    const int64_t v5 = (v4 - 4604544271217802189LL) >> 52LL;
    const double v6 = float64_of_int64(v4 - (v5 << 52LL)) - 1.0;
    const double v7 = (float64_of_int64(v5 + 4843621399236968448LL) - 6755399441055744.0) + select_float64(v2, -1074.0, 0.0);
    const double v8 = (0.5 * v6) * v6;
    const double v9 = v6 * (1.0 / (v6 + 2.0));
    const double v10 = v9 * v9;
    const double v11 = (((((0.1325104517628035 * v10) + 0.1325015225984964) * v10) + 0.15387089097838486) * v10) +
        0.18181775707300832;
    const double v12 = (((((v11 * v10) + 0.22222222646219045) * v10) + 0.2857142856909015) * v10) + 0.4000000000000623;
    const double v13 = (v9 * (v8 + (v10 * ((v12 * v10) + 0.6666666666666666)))) + (v7 * 1.9082149292705877e-10);
    const double v14 = select_float64(-(int64_t)(x < INFINITY), (v7 * 0.6931471803691238) + (v6 - (v8 - v13)), x);
    return select_float64(-(int64_t)(v3 == 0.0), -INFINITY, select_float64(-(int64_t)(int64_of_float64(x) < 0LL), NAN, v14));
}

INLINE float pow_float32(float x, float y) {
    const int32_t v0 = int32_of_float32(y);
    const int32_t v1 = v0 & 2147483647;
    const int32_t v2 = select_int32(-(int32_t)(v1 < 226492416), select_int32(-(int32_t)(v1 == 0), 0, 226492416), v1);
    const float v3 = float32_of_int32(v2 | (v0 & INT32_MIN));
    const double v4 = (double)v3;
    const int32_t v5 = int32_of_float32(x);
    const int32_t v6 = v5 & 2147483647;
    const double v7 = select_float64((int64_t)-(int32_t)(v6 < 8388608), (double)v6 * 1.401298464324817e-45,
        (double)float32_of_int32(v6));
    const int64_t v8 = int64_of_float64(v7);
    const int64_t v9 = (v8 - 4604544271217802189LL) >> 52LL;
    const double v10 = float64_of_int64(v8 - (v9 << 52LL));
    const double v11 = (v10 - 1.0) * (1.0 / (v10 + 1.0));
    const double v12 = v11 * v11;
    const double v13 = ((((0.23617756739094517 * v12) + 0.28534970952302885) * v12) + 0.40000386104867364) * v12;
    const int64_t v14 = -(int64_t)(v7 < INFINITY);
    const double v15 = (float64_of_int64(v9 + 4843621399236968448LL) - 6755399441055744.0) + ((v11 * (((v13 +
        0.6666666523929964) * v12) + 2.0000000000084324)) * 1.4426950408889634);
    const double v16 = select_float64(-(int64_t)(v7 == 0.0), -INFINITY, select_float64(v14, v15, v7));
    const double v17 = select_float64(-(int64_t)(v16 == 0.0) | -(int64_t)(v4 == 0.0), 0.0, v4 * v16);
    const double v18 = select_float64(-(int64_t)(v17 > 200.0), 200.0, select_float64(-(int64_t)(v17 < (-200.0)), -200.0, v17));
    const double v19 = rint(v18);
    const double v20 = v18 - v19;
    const double v21 = (((1.5201901345874144e-05 * v20) + 0.00015469317316715088) * v20) + 0.001333392285438508;
    const double v22 = (((((v21 * v20) + 0.009618027172737355) * v20) + 0.055504103528339045) * v20) + 0.2402265119875483;
    const double v23 = ((((v22 * v20) + 0.6931471807287157) * v20) + 0.9999999999616214) *
        float64_of_int64((int64_of_float64(v19 + 6755399441055744.0) + 1023LL) << 52LL);
    const float v24 = (float)v23;
    const float v25 = v3 * 0.5f;
    const float v26 = fabsf(v3);
    const float v27 = select_float32(-(int32_t)(v26 < 0.25f), v26, fabsf(v25 - rintf(v25)));
    const float v28 = select_float32(-(int32_t)(v27 == 0.5f), -1.0f, select_float32((int32_t)(-(int64_t)(v7 > 0.0) & v14), NAN,
        1.0f));
    const float v29 = v24 * select_float32(-(int32_t)(v27 == 0.0f) | -(int32_t)(v26 >= 16777216.0f), 1.0f, v28);
    return select_float32(-(int32_t)(v5 < 0), v29, v24);
}

INLINE double pow_float64(double x, double y) {
    const double v0 = fabs(x);
    const int64_t v1 = int64_of_float64(v0);
    const int64_t v2 = -(int64_t)(v1 < 4503599627370496LL);
    const double v3 = select_float64(v2, float64_of_int64(v1 + 4841369599423283200LL) - 4503599627370496.0, v0);
    const int64_t v4 = int64_of_float64(v3);
    const int64_t v5 = (v4 - 4604544271217802189LL) >> 52LL;
    const double v6 = float64_of_int64(v4 - (v5 << 52LL));
    const double v7 = (float64_of_int64(v5 + 4843621399236968448LL) - 6755399441055744.0) + select_float64(v2, -1074.0, 0.0);
    const double v8 = v6 - 1.0;
    const double v9 = v6 + 1.0;
    const double v10 = 1.0 / v9;
    const double v11 = v8 * v10;
    const double v12 = float64_of_int64(int64_of_float64(v11) & (-4294967296LL));
    const double v13 = float64_of_int64(int64_of_float64(v9) & (-4294967296LL));
    const double v14 = v10 * ((v8 - (v12 * v13)) - (v12 * (v6 - (v13 - 1.0))));
    const double v15 = v11 * v11;
    const double v16 = ((((0.17983193888755147 * v15) + 0.17512270811120728) * v15) + 0.2000447379064042) * v15;
    const double v17 = ((((v16 + 0.23076835373651153) * v15) + 0.27272728304380817) * v15) + 0.33333333326314596;
    const double v18 = ((v15 * v15) * ((((v17 * v15) + 0.42857142857167624) * v15) + 0.5999999999999996)) + (v14 * (v12 + v11));
    const double v19 = v12 * v12;
    const double v20 = float64_of_int64(int64_of_float64((3.0 + v19) + v18) & (-4294967296LL));
    const double v21 = v12 * v20;
    const double v22 = (v14 * v20) + ((v18 - ((v20 - 3.0) - v19)) * v11);
    const double v23 = float64_of_int64(int64_of_float64(v21 + v22) & (-4294967296LL));
    const double v24 = v23 * 0.9617962837219238;
    const double v25 = (v23 * 4.102040517767816e-07) + ((v22 - (v23 - v21)) * 0.9617966939259756);
    const double v26 = float64_of_int64(int64_of_float64((v24 + v25) + v7) & (-4294967296LL));
    const double v27 = select_float64(-(int64_t)(y > 1.1805916207174113e+21), 1.1805916207174113e+21,
        select_float64(-(int64_t)(y < (-1.1805916207174113e+21)), -1.1805916207174113e+21, y));
    const double v28 = float64_of_int64(int64_of_float64(v27) & (-4294967296LL));
    const double v29 = ((v27 - v28) * v26) + (v27 * (v25 - ((v26 - v7) - v24)));
    const double v30 = v28 * v26;
    const double v31 = v29 + v30;
    const double v32 = select_float64(-(int64_t)(v31 > 1100.0), 1100.0, select_float64(-(int64_t)(v31 < (-1100.0)), -1100.0,
        v31));
    const double v33 = rint(v32);
    const double v34 = v30 - v33;
    const double v35 = float64_of_int64(int64_of_float64(v29 + v34) & (-4294967296LL));
    const double v36 = v35 * 0.6931467056274414;
    const double v37 = ((v29 - (v35 - v34)) * 0.6931471805599453) + (v35 * 4.749325039031672e-07);
    const double v38 = v36 + v37;
    const double v39 = v37 - (v38 - v36);
    const double v40 = (((2.0826626016406064e-09 * v38) + 2.511203684281884e-08) * v38) + 2.7557581851595033e-07;
    const double v41 = (((((v40 * v38) + 2.755723486191851e-06) * v38) + 2.4801586926629346e-05) * v38) +
        0.00019841269896383806;
    const double v42 = (((((v41 * v38) + 0.001388888888911563) * v38) + 0.008333333333317034) * v38) + 0.041666666666666095;
    const double v43 = ((v38 * v38) * ((((v42 * v38) + 0.16666666666666682) * v38) + 0.5)) + (v39 + (v39 * v38));
    const int64_t v44 = -(int64_t)(v33 > 0.0);
    const int64_t v45 = (int64_of_float64(select_float64(v44, v33 - 1.0, v33) + 6755399441055744.0) + 1023LL) << 52LL;
    const double v46 = select_float64(-(int64_t)(v31 >= 1024.0), INFINITY, ((1.0 + (v38 + v43)) * float64_of_int64(v45)) *
        select_float64(v44, 2.0, 1.0));
    const int64_t v47 = -(int64_t)(v3 == 0.0);
    const double v48 = select_float64(v47 | -(int64_t)(v3 == INFINITY), select_float64(v47 ^ -(int64_t)(y < 0.0), 0.0,
        INFINITY), select_float64(-(int64_t)(v31 < (-1022.0)), 0.0, v46));
    const double v49 = y * 0.5;
    const double v50 = fabs(y);
    const double v51 = select_float64(-(int64_t)(v50 < 0.25), v50, fabs(v49 - rint(v49)));
    const double v52 = select_float64(-(int64_t)(v51 == 0.5), -1.0, select_float64(-(int64_t)(v3 > 0.0) & -(int64_t)(v3 <
        INFINITY), NAN, 1.0));
    const double v53 = v48 * select_float64(-(int64_t)(v51 == 0.0) | -(int64_t)(v50 >= 9007199254740992.0), 1.0, v52);
    const double v54 = select_float64(-(int64_t)(x != x) | -(int64_t)(y != y), NAN,
        select_float64(-(int64_t)(int64_of_float64(x) < 0LL), v53, v48));
    return select_float64(-(int64_t)(y == 0.0) | -(int64_t)(x == 1.0), 1.0, v54);
}

INLINE float cbrt_float32(float x) {
    const int32_t v0 = int32_of_float32(x);
    const int32_t v1 = v0 & 2147483647;
    const int32_t v2 = -(int32_t)(v1 < 8388608);
    const float v3 = select_float32(v2, 2.0f * (float)v1, float32_of_int32(v1));
    const float v4 = float32_of_int32(1419886592 - ((int32_of_float32(v3) >> 16) * 21845));
    const float v5 = 1.0f - (((v3 * v4) * v4) * v4);
    const float v6 = v4 * (v5 * ((((0.17366375029087067f * v5) + 0.223582461476326f) * v5) + 0.333333283662796f));
    const double v7 = (double)(v4 + v6);
    const double v8 = ((double)v3 * v7) * v7;
    const float v9 = (float)(v8 + (v8 * ((1.0 - (v8 * v7)) * 0.6666666666666666))) * select_float32(v2, 8.881784197001252e-16f,
        1.0f);
    return float32_of_int32(int32_of_float32(select_float32(-(int32_t)(v3 < INFINITY), v9, v3)) ^ (v0 & INT32_MIN));
}

INLINE double cbrt_float64(double x) {
    const double v0 = fabs(x);
    const int64_t v1 = int64_of_float64(v0);
    const int64_t v2 = -(int64_t)(v1 < 4503599627370496LL);
    const double v3 = select_float64(v2, float64_of_int64(v1 + 4841369599423283200LL) - 4503599627370496.0, v0);
    const int64_t v4 = -(int64_t)(v3 < 1.1830521861667747e-271);
    const double v5 = v3 * select_float64(v4, 4.149515568880993e+180, 1.0);
    const double v6 = float64_of_int64(6142602028477579264LL - ((int64_of_float64(v5) >> 32LL) * 1431655765LL));
    const double v7 = 1.0 - (((v5 * v6) * v6) * v6);
    const double v8 = v6 * (v7 * ((((0.17366375731038547 * v7) + 0.22358246365111675) * v7) + 0.3333332947021514));
    const double v9 = v6 + v8;
    const double v10 = float64_of_int64((int64_of_float64((v5 * v9) * v9) - 68719476736LL) & (-68719476736LL));
    const double v11 = (v5 - ((v10 * v10) * v10)) / v5;
    const double v12 = (((((0.1440329218106996 * v11) + 0.1728395061728395) * v11) + 0.2222222222222222) * v11) +
        0.3333333333333333;
    const double v13 = select_float64(v2, 1.7031839360032603e-108, select_float64(v4, 6.223015277861142e-61, 1.0));
    const double v14 = float64_of_int64(int64_of_float64((v10 + (v10 * (v11 * v12))) * v13) ^ (int64_of_float64(x) &
        INT64_MIN));
    return select_float64(-(int64_t)(v3 == 0.0) | ~-(int64_t)(v3 < INFINITY), x, v14);
}

INLINE float lgamma_float32(float x) {
    const int32_t v0 = int32_of_float32(x);
    const int32_t v1 = v0 & 2147483647;
    const double v2 = select_float64((int64_t)-(int32_t)(v1 < 8388608), (double)v1 * 1.401298464324817e-45,
        (double)float32_of_int32(v1));
    const double v3 = select_float64((int64_t)-(int32_t)(v0 < 0), -v2, v2);
    const double v4 = fabs(v3);
    const int64_t v5 = -(int64_t)(v4 <= 0.5);
    const int64_t v6 = -(int64_t)(v4 > 2.5);
    const int64_t v7 = -(int64_t)(v4 >= 3.5);
    const double v8 = v4 - 1.0;
    const int64_t v9 = int64_of_float64(select_float64(v5 | v7, v4, select_float64(v6, v8, 1.0)));
    const int64_t v10 = (v9 - 4604544271217802189LL) >> 52LL;
    const double v11 = float64_of_int64(v10 + 4843621399236968448LL) - 6755399441055744.0;
    const double v12 = float64_of_int64(v9 - (v10 << 52LL)) - 1.0;
    const double v13 = (0.5 * v12) * v12;
    const double v14 = v12 * (1.0 / (v12 + 2.0));
    const double v15 = v14 * v14;
    const double v16 = (((((0.1325104517628035 * v15) + 0.1325015225984964) * v15) + 0.15387089097838486) * v15) +
        0.18181775707300832;
    const double v17 = (((((v16 * v15) + 0.22222222646219045) * v15) + 0.2857142856909015) * v15) + 0.4000000000000623;
    const double v18 = (v11 * 1.9082149292705877e-10) + (v14 * (v13 + (v15 * ((v17 * v15) + 0.6666666666666666))));
    const double v19 = v11 * 0.6931471803691238;
    const double v20 = v19 + v12;
    const double v21 = ((v19 - v20) + v12) + (v18 - v13);
    const double v22 = v20 + v21;
    const double v23 = v21 - (v22 - v20);
    const double v24 = select_float64(v5, v3, select_float64(v6, v4 - 2.0, v8));
    const int64_t v25 = -(int64_t)(v24 < 0.23);
    const int64_t v26 = -(int64_t)(v24 > 0.73);
    const int64_t v27 = ~(v25 | v26);
    const double v28 = select_float64(v25, v24, v24 - select_float64(v26, 1.0, 0.46163214496836236));
    const double v29 = (select_float64(v26, 0.0, select_float64(v25, -3.8787228322309626, 0.0)) * v28) + select_float64(v26,
        0.0, select_float64(v25, -9.022097692086705, 0.0));
    const double v30 = ((v29 * v28) + select_float64(v26, 0.0, select_float64(v25, -8.455710157580139, 0.0))) * v28;
    const double v31 = ((v30 + select_float64(v26, 0.0, select_float64(v25, -2.9112615104434005, 0.0))) * v28) +
        select_float64(v26, 0.0, select_float64(v25, 0.5996861395480989, 0.0));
    const double v32 = ((v31 * v28) + select_float64(v26, 0.0, select_float64(v25, 0.900118178454683, 0.0))) * v28;
    const double v33 = ((v32 + select_float64(v26, 0.0, select_float64(v25, 0.111798555154324, 0.0))) * v28) +
        select_float64(v26, 0.0, select_float64(v25, -0.008961760202019387, 0.0));
    const double v34 = ((v33 * v28) + select_float64(v26, 0.0, select_float64(v25, -0.08798349252315084, 0.0))) * v28;
    const double v35 = v34 + select_float64(v26, 4.820042858124523e-07, select_float64(v25, 0.06308241875962217, 0.0));
    const double v36 = select_float64(v26, -1.877502658391097e-06, select_float64(v25, -0.06465690901686698,
        0.0001338765307540892));
    const double v37 = select_float64(v26, 4.439510366723038e-06, select_float64(v25, 0.07161213008357376,
        -0.00024421468157336874));
    const double v38 = select_float64(v26, -9.495039084794555e-06, select_float64(v25, -0.07700697823459958,
        0.00035528444267146517));
    const double v39 = select_float64(v26, 2.051034624305208e-05, select_float64(v25, 0.0833422784575307,
        -0.0005525891008250154));
    const double v40 = select_float64(v26, -4.492053710383026e-05, select_float64(v25, -0.09095244832153213,
        0.0008779415220952526));
    const double v41 = select_float64(v26, 9.945655459308748e-05, select_float64(v25, 0.10009979674852026,
        -0.0014023187372602614));
    const double v42 = ((((((((((v35 * v28) + v36) * v28) + v37) * v28) + v38) * v28) + v39) * v28) + v40) * v28;
    const double v43 = select_float64(v26, -0.0002231550298216274, select_float64(v25, -0.11133428423297789,
        0.0022597764201756857));
    const double v44 = select_float64(v26, 0.0005096695865487738, select_float64(v25, 0.1255096641453937,
        -0.0036845680803733604));
    const double v45 = select_float64(v26, -0.0011927539052192105, select_float64(v25, -0.14404989665964632,
        0.006100535789712836));
    const double v46 = select_float64(v26, 0.0028905103290424033, select_float64(v25, 0.1695571770424074,
        -0.010314223054778877));
    const double v47 = select_float64(v26, -0.007385551028750301, select_float64(v25, -0.20738555102895964,
        0.01797067511736517));
    const double v48 = ((((((((((v42 + v41) * v28) + v43) * v28) + v44) * v28) + v45) * v28) + v46) * v28) + v47;
    const double v49 = select_float64(v26, 0.0205808084278038, select_float64(v25, 0.27058080842761423, -0.032788541088383964));
    const double v50 = select_float64(v26, -0.0673523010531977, select_float64(v25, -0.4006856343865311, 0.06462494023890529));
    const double v51 = select_float64(v26, 0.32246703342411315, select_float64(v25, 0.8224670334241134, -0.14758772299453085));
    const double v52 = select_float64(v26, 0.42278433509846713, select_float64(v25, -0.5772156649015329, 0.4838361227238106));
    const double v53 = ((((((((v48 * v28) + v49) * v28) + v50) * v28) + v51) * v28) + v52) * select_float64(v27, v28 * v28,
        v28);
    const double v54 = select_float64(v5, -1.0, 1.0);
    const double v55 = 1.0 / v4;
    const double v56 = v4 - 0.5;
    const double v57 = v55 * v55;
    const double v58 = ((((-0.11361450011575464) * v57) + 0.06782859946004352) * v57) + (-0.022032025434103184);
    const double v59 = (((((v58 * v57) + 0.006055636922500353) * v57) + (-0.0019063886109063305)) * v57) +
        0.0008415293928525752;
    const double v60 = (((((v59 * v57) + (-0.000595235510216659)) * v57) + 0.00079365077813379) * v57) +
        (-0.0027777777777414107);
    const double v61 = select_float64(v7, v56 * v22, v54 * v22) + select_float64(v7, -v56, select_float64(v27,
        -0.1214862905358496, 0.0));
    const double v62 = 0.0 + ((v56 * v23) + ((v55 * ((v60 * v57) + 0.08333333333333331)) + 0.41893853320467267));
    const double v63 = select_float64(v7, v62, (v54 * v23) + (select_float64(v27, -1.0512796339341318e-17, 0.0) + v53));
    const double v64 = select_float64(-(int64_t)(v4 >= 1.0715086071862673e+301), 0.0, v63 + 0.0);
    const double v65 = v4 - rint(v4);
    const double v66 = v65 * v65;
    const double v67 = (((2.4499018230755104e-07 * v66) + (-6.972064614848834e-06)) * v66) + 0.0001484278294176245;
    const double v68 = (((((v67 * v66) + (-0.0023460808935711467)) * v66) + 0.026147847805438662) * v66) + (-0.1907518241215);
    const double v69 = v65 + ((v65 * v66) * ((((v68 * v66) + 0.8117424252833401) * v66) + (-1.6449340668482264)));
    const double v70 = v4 * v69;
    const int64_t v71 = int64_of_float64(fabs(v70));
    const int64_t v72 = (v71 - 4604544271217802189LL) >> 52LL;
    const double v73 = float64_of_int64(v72 + 4843621399236968448LL) - 6755399441055744.0;
    const double v74 = float64_of_int64(v71 - (v72 << 52LL)) - 1.0;
    const double v75 = (0.5 * v74) * v74;
    const double v76 = v74 * (1.0 / (v74 + 2.0));
    const double v77 = v76 * v76;
    const double v78 = (((((0.1325104517628035 * v77) + 0.1325015225984964) * v77) + 0.15387089097838486) * v77) +
        0.18181775707300832;
    const double v79 = (((((v78 * v77) + 0.22222222646219045) * v77) + 0.2857142856909015) * v77) + 0.4000000000000623;
    const double v80 = (v73 * 1.9082149292705877e-10) + (v76 * (v75 + (v77 * ((v79 * v77) + 0.6666666666666666))));
    const double v81 = v73 * 0.6931471803691238;
    const double v82 = v81 + v74;
    const double v83 = ((v81 - v82) + v74) + (v80 - v75);
    const double v84 = v82 + v83;
    const int64_t v85 = -(int64_t)(v3 < (-0.5));
    const double v86 = select_float64(v85, -((v84 + v61) + (0.0 + (((v83 - (v84 - v82)) + ((0.0 + (v4 * 0.0)) / v70)) + v64))),
        v61 + v64);
    const double v87 = select_float64((-(int64_t)(v4 == 0.0) | -(int64_t)(v4 == INFINITY)) | (v85 & -(int64_t)(v70 == 0.0)),
        INFINITY, v86);
    return (float)v87;
}

INLINE double lgamma_float64(double x) {
    const double v0 = fabs(x);
    const int64_t v1 = -(int64_t)(v0 <= 0.5);
    const int64_t v2 = -(int64_t)(v0 > 2.5);
    const int64_t v3 = -(int64_t)(v0 >= 3.5);
    const double v4 = v0 - 1.0;
    const int64_t v5 = int64_of_float64(select_float64(v1 | v3, v0, select_float64(v2, v4, 1.0)));
    const int64_t v6 = (v5 - 4604544271217802189LL) >> 52LL;
    const double v7 = float64_of_int64(v6 + 4843621399236968448LL) - 6755399441055744.0;
    const double v8 = float64_of_int64(v5 - (v6 << 52LL)) - 1.0;
    const double v9 = (0.5 * v8) * v8;
    const double v10 = v8 * (1.0 / (v8 + 2.0));
    const double v11 = v10 * v10;
    const double v12 = (((((0.1325104517628035 * v11) + 0.1325015225984964) * v11) + 0.15387089097838486) * v11) +
        0.18181775707300832;
    const double v13 = (((((v12 * v11) + 0.22222222646219045) * v11) + 0.2857142856909015) * v11) + 0.4000000000000623;
    const double v14 = (v7 * 1.9082149292705877e-10) + (v10 * (v9 + (v11 * ((v13 * v11) + 0.6666666666666666))));
    const double v15 = v7 * 0.6931471803691238;
    const double v16 = v15 + v8;
    const double v17 = ((v15 - v16) + v8) + (v14 - v9);
    const double v18 = v16 + v17;
    const double v19 = v17 - (v18 - v16);
    const double v20 = select_float64(v1, x, select_float64(v2, v0 - 2.0, v4));
    const int64_t v21 = -(int64_t)(v20 < 0.23);
    const int64_t v22 = -(int64_t)(v20 > 0.73);
    const int64_t v23 = ~(v21 | v22);
    const double v24 = select_float64(v21, v20, v20 - select_float64(v22, 1.0, 0.46163214496836236));
    const double v25 = (select_float64(v22, 0.0, select_float64(v21, -3.8787228322309626, 0.0)) * v24) + select_float64(v22,
        0.0, select_float64(v21, -9.022097692086705, 0.0));
    const double v26 = ((v25 * v24) + select_float64(v22, 0.0, select_float64(v21, -8.455710157580139, 0.0))) * v24;
    const double v27 = ((v26 + select_float64(v22, 0.0, select_float64(v21, -2.9112615104434005, 0.0))) * v24) +
        select_float64(v22, 0.0, select_float64(v21, 0.5996861395480989, 0.0));
    const double v28 = ((v27 * v24) + select_float64(v22, 0.0, select_float64(v21, 0.900118178454683, 0.0))) * v24;
    const double v29 = ((v28 + select_float64(v22, 0.0, select_float64(v21, 0.111798555154324, 0.0))) * v24) +
        select_float64(v22, 0.0, select_float64(v21, -0.008961760202019387, 0.0));
    const double v30 = ((v29 * v24) + select_float64(v22, 0.0, select_float64(v21, -0.08798349252315084, 0.0))) * v24;
    const double v31 = v30 + select_float64(v22, 4.820042858124523e-07, select_float64(v21, 0.06308241875962217, 0.0));
    const double v32 = select_float64(v22, -1.877502658391097e-06, select_float64(v21, -0.06465690901686698,
        0.0001338765307540892));
    const double v33 = select_float64(v22, 4.439510366723038e-06, select_float64(v21, 0.07161213008357376,
        -0.00024421468157336874));
    const double v34 = select_float64(v22, -9.495039084794555e-06, select_float64(v21, -0.07700697823459958,
        0.00035528444267146517));
    const double v35 = select_float64(v22, 2.051034624305208e-05, select_float64(v21, 0.0833422784575307,
        -0.0005525891008250154));
    const double v36 = select_float64(v22, -4.492053710383026e-05, select_float64(v21, -0.09095244832153213,
        0.0008779415220952526));
    const double v37 = select_float64(v22, 9.945655459308748e-05, select_float64(v21, 0.10009979674852026,
        -0.0014023187372602614));
    const double v38 = ((((((((((v31 * v24) + v32) * v24) + v33) * v24) + v34) * v24) + v35) * v24) + v36) * v24;
    const double v39 = select_float64(v22, -0.0002231550298216274, select_float64(v21, -0.11133428423297789,
        0.0022597764201756857));
    const double v40 = select_float64(v22, 0.0005096695865487738, select_float64(v21, 0.1255096641453937,
        -0.0036845680803733604));
    const double v41 = select_float64(v22, -0.0011927539052192105, select_float64(v21, -0.14404989665964632,
        0.006100535789712836));
    const double v42 = select_float64(v22, 0.0028905103290424033, select_float64(v21, 0.1695571770424074,
        -0.010314223054778877));
    const double v43 = select_float64(v22, -0.007385551028750301, select_float64(v21, -0.20738555102895964,
        0.01797067511736517));
    const double v44 = ((((((((((v38 + v37) * v24) + v39) * v24) + v40) * v24) + v41) * v24) + v42) * v24) + v43;
    const double v45 = select_float64(v22, 0.0205808084278038, select_float64(v21, 0.27058080842761423, -0.032788541088383964));
    const double v46 = select_float64(v22, -0.0673523010531977, select_float64(v21, -0.4006856343865311, 0.06462494023890529));
    const double v47 = select_float64(v22, 0.32246703342411315, select_float64(v21, 0.8224670334241134, -0.14758772299453085));
    const double v48 = select_float64(v22, 0.42278433509846713, select_float64(v21, -0.5772156649015329, 0.4838361227238106));
    const double v49 = ((((((((v44 * v24) + v45) * v24) + v46) * v24) + v47) * v24) + v48) * select_float64(v23, v24 * v24,
        v24);
    const double v50 = select_float64(v1, -1.0, 1.0);
    const double v51 = 1.0 / v0;
    const double v52 = v0 - 0.5;
    const double v53 = v51 * v51;
    const double v54 = ((((-0.11361450011575464) * v53) + 0.06782859946004352) * v53) + (-0.022032025434103184);
    const double v55 = (((((v54 * v53) + 0.006055636922500353) * v53) + (-0.0019063886109063305)) * v53) +
        0.0008415293928525752;
    const double v56 = (((((v55 * v53) + (-0.000595235510216659)) * v53) + 0.00079365077813379) * v53) +
        (-0.0027777777777414107);
    const double v57 = v52 * v18;
    const double v58 = float64_of_int64(int64_of_float64(v52) & (-4294967296LL));
    const double v59 = float64_of_int64(int64_of_float64(v18) & (-4294967296LL));
    const double v60 = v52 - v58;
    const double v61 = v18 - v59;
    const double v62 = select_float64(v3, v57, v50 * v18);
    const double v63 = select_float64(v3, -v52, select_float64(v23, -0.1214862905358496, 0.0));
    const double v64 = v62 + v63;
    const double v65 = v64 - v62;
    const double v66 = (((((v58 * v59) - v57) + (v58 * v61)) + (v60 * v59)) + (v60 * v61)) + ((v52 * v19) + ((v51 * ((v56 * v53)
        + 0.08333333333333331)) + 0.41893853320467267));
    const double v67 = select_float64(v3, v66, (v50 * v19) + (select_float64(v23, -1.0512796339341318e-17, 0.0) + v49));
    const double v68 = select_float64(-(int64_t)(v0 >= 1.0715086071862673e+301), 0.0, v67 + ((v62 - (v64 - v65)) + (v63 -
        v65)));
    const double v69 = v0 - rint(v0);
    const double v70 = v69 * v69;
    const double v71 = (((2.4499018230755104e-07 * v70) + (-6.972064614848834e-06)) * v70) + 0.0001484278294176245;
    const double v72 = (((((v71 * v70) + (-0.0023460808935711467)) * v70) + 0.026147847805438662) * v70) + (-0.1907518241215);
    const double v73 = (v69 * v70) * ((((v72 * v70) + 0.8117424252833401) * v70) + (-1.6449340668482264));
    const double v74 = v69 + v73;
    const double v75 = v74 - v69;
    const double v76 = v0 * v74;
    const double v77 = float64_of_int64(int64_of_float64(v0) & (-4294967296LL));
    const double v78 = float64_of_int64(int64_of_float64(v74) & (-4294967296LL));
    const double v79 = v0 - v77;
    const double v80 = v74 - v78;
    const int64_t v81 = int64_of_float64(fabs(v76));
    const int64_t v82 = (v81 - 4604544271217802189LL) >> 52LL;
    const double v83 = float64_of_int64(v82 + 4843621399236968448LL) - 6755399441055744.0;
    const double v84 = float64_of_int64(v81 - (v82 << 52LL)) - 1.0;
    const double v85 = (0.5 * v84) * v84;
    const double v86 = v84 * (1.0 / (v84 + 2.0));
    const double v87 = v86 * v86;
    const double v88 = (((((0.1325104517628035 * v87) + 0.1325015225984964) * v87) + 0.15387089097838486) * v87) +
        0.18181775707300832;
    const double v89 = (((((v88 * v87) + 0.22222222646219045) * v87) + 0.2857142856909015) * v87) + 0.4000000000000623;
    const double v90 = (v83 * 1.9082149292705877e-10) + (v86 * (v85 + (v87 * ((v89 * v87) + 0.6666666666666666))));
    const double v91 = v83 * 0.6931471803691238;
    const double v92 = v91 + v84;
    const double v93 = ((v91 - v92) + v84) + (v90 - v85);
    const double v94 = v92 + v93;
    const double v95 = (((((v77 * v78) - v76) + (v77 * v80)) + (v79 * v78)) + (v79 * v80)) + (v0 * ((v69 - (v74 - v75)) + (v73 -
        v75)));
    const double v96 = v94 + v64;
    const double v97 = v96 - v94;
    const int64_t v98 = -(int64_t)(x < (-0.5));
    const double v99 = v96 + (((v94 - (v96 - v97)) + (v64 - v97)) + (((v93 - (v94 - v92)) + (v95 / v76)) + v68));
    return select_float64((-(int64_t)(v0 == 0.0) | -(int64_t)(v0 == INFINITY)) | (v98 & -(int64_t)(v76 == 0.0)), INFINITY,
        select_float64(v98, -v99, v64 + v68));
}

INLINE float digamma_float32(float x) {
    const int32_t v0 = int32_of_float32(x);
    const int32_t v1 = v0 & 2147483647;
    const double v2 = select_float64((int64_t)-(int32_t)(v1 < 8388608), (double)v1 * 1.401298464324817e-45,
        (double)float32_of_int32(v1));
    const double v3 = select_float64((int64_t)-(int32_t)(v0 < 0), -v2, v2);
    const double v4 = fabs(v3);
    const int64_t v5 = -(int64_t)(v3 < 0.0);
    const int64_t v6 = -(int64_t)(v4 < 1.0);
    const int64_t v7 = -(int64_t)(v4 >= 2.75);
    const double v8 = 1.0 / v4;
    const double v9 = select_float64(v6, v4, v4 - 1.0);
    const double v10 = v9 - 0.75;
    const double v11 = ((((-8.573268198331544e-08) * v10) + 4.4392220940504484e-07) * v10) + (-8.028144236420675e-07);
    const double v12 = (((((v11 * v10) + 4.579241276801617e-07) * v10) + (-6.04180581389236e-08)) * v10) +
        1.3783698461900156e-06;
    const double v13 = (((((v12 * v10) + (-3.968624583722955e-06)) * v10) + 6.057380551073398e-06) * v10) +
        (-8.954798397879872e-06);
    const double v14 = (((((v13 * v10) + 1.596647519899287e-05) * v10) + (-2.9017526713873566e-05)) * v10) +
        5.0796986049185255e-05;
    const double v15 = (((((v14 * v10) + (-8.844289960084507e-05)) * v10) + 0.00015476008746767933) * v10) +
        (-0.0002710739967053238);
    const double v16 = (((((v15 * v10) + 0.0004746958768477391) * v10) + (-0.0008315005450441054)) * v10) +
        0.0014573725179120097;
    const double v17 = (((((v16 * v10) + (-0.0025566860782075766)) * v10) + 0.004491813908704202) * v10) +
        (-0.007910468810045035);
    const double v18 = (((((v17 * v10) + 0.013985786172743897) * v10) + (-0.024890048487538993)) * v10) + 0.044799654453102654;
    const double v19 = (((((v18 * v10) + (-0.0822855863558077)) * v10) + 0.15712011335203893) * v10) + (-0.32625462786810555);
    const int64_t v20 = int64_of_float64(v4);
    const int64_t v21 = (v20 - 4604544271217802189LL) >> 52LL;
    const double v22 = float64_of_int64(v21 + 4843621399236968448LL) - 6755399441055744.0;
    const double v23 = float64_of_int64(v20 - (v21 << 52LL)) - 1.0;
    const double v24 = (0.5 * v23) * v23;
    const double v25 = v23 * (1.0 / (v23 + 2.0));
    const double v26 = v25 * v25;
    const double v27 = (((((0.1325104517628035 * v26) + 0.1325015225984964) * v26) + 0.15387089097838486) * v26) +
        0.18181775707300832;
    const double v28 = (((((v27 * v26) + 0.22222222646219045) * v26) + 0.2857142856909015) * v26) + 0.4000000000000623;
    const double v29 = (v22 * 1.9082149292705877e-10) + (v25 * (v24 + (v26 * ((v28 * v26) + 0.6666666666666666))));
    const double v30 = v22 * 0.6931471803691238;
    const double v31 = v30 + v23;
    const double v32 = ((v30 - v31) + v23) + (v29 - v24);
    const double v33 = v31 + v32;
    const double v34 = v8 * v8;
    const double v35 = select_float64(v7, -0.5, select_float64(v6, -1.0, 0.0));
    const double v36 = select_float64(v7, v33, (v9 - 0.4616321449683623) * ((v19 * v10) + 0.8581832171262995)) +
        (select_float64(v5, v35 + 1.0, v35) * v8);
    const double v37 = (((((-12.7234502281439) * v34) + 11.864691302870087) * v34) + (-5.240779799884499)) * v34;
    const double v38 = ((((v37 + 1.5212797988248907) * v34) + (-0.35297125566629095)) * v34) + 0.07934255354419496;
    const double v39 = (((((v38 * v34) + (-0.020968615102043883)) * v34) + 0.00757320870416685) * v34) + (-0.00416663504759843);
    const double v40 = (((((v39 * v34) + 0.003968253762674595) * v34) + (-0.008333333332805764)) * v34) + 0.0833333333333331;
    const double v41 = 0.0 + select_float64(v7, (v32 - (v33 - v31)) - (v34 * v40), -3.8696054857960516e-17);
    const double v42 = v4 - rint(v4);
    const int64_t v43 = -(int64_t)(fabs(v42) > 0.25);
    const double v44 = select_float64(v43, float64_of_int64(int64_of_float64(0.5) ^ (int64_of_float64(v42) & INT64_MIN)) - v42,
        v42);
    const double v45 = v44 * v44;
    const double v46 = (((((1737024708.309517 * v45) + (-378750546.5880316)) * v45) + 76487821.23290443) * v45) +
        (-2291660.63450322);
    const double v47 = (((((v46 * v45) + 1197877.7179690935) * v45) + 197575.78612141928) * v45) + 53575.91617115428;
    const double v48 = (((((v47 * v45) + 13270.529477854112) * v45) + 3320.2424436606843) * v45) + 830.023165130044;
    const double v49 = (((((v48 * v45) + 207.50933048873839) * v45) + 51.88449612110903) * v45) + 12.98787880461309;
    const double v50 = v44 + ((v44 * v45) * ((v49 * v45) + 3.2898681336963977));
    const double v51 = 1.0 / v50;
    const double v52 = select_float64(v43, 9.869604401089358, v51) * v50;
    const double v53 = select_float64(v43, 0.0 + ((v50 * 6.265295508739711e-16) + (0.0 * 9.869604401089358)), v51 * (((1.0 -
        v52) - 0.0) - (v51 * 0.0)));
    const double v54 = select_float64(v5, (select_float64(v43, v52, v51) + v36) + (0.0 + (v53 + v41)),
        select_float64(-(int64_t)(v4 == INFINITY), v4, v36 + v41));
    return (float)select_float64(-(int64_t)(v42 == 0.0) & -(int64_t)(v3 <= 0.0), NAN, v54);
}

INLINE double digamma_float64(double x) {
    const double v0 = fabs(x);
    const int64_t v1 = -(int64_t)(x < 0.0);
    const int64_t v2 = -(int64_t)(v0 < 1.0);
    const int64_t v3 = -(int64_t)(v0 >= 2.75);
    const double v4 = 1.0 / v0;
    const double v5 = select_float64(v2, v0, v0 - 1.0);
    const double v6 = v5 - 0.75;
    const double v7 = ((((-8.573268198331544e-08) * v6) + 4.4392220940504484e-07) * v6) + (-8.028144236420675e-07);
    const double v8 = (((((v7 * v6) + 4.579241276801617e-07) * v6) + (-6.04180581389236e-08)) * v6) + 1.3783698461900156e-06;
    const double v9 = (((((v8 * v6) + (-3.968624583722955e-06)) * v6) + 6.057380551073398e-06) * v6) + (-8.954798397879872e-06);
    const double v10 = (((((v9 * v6) + 1.596647519899287e-05) * v6) + (-2.9017526713873566e-05)) * v6) + 5.0796986049185255e-05;
    const double v11 = (((((v10 * v6) + (-8.844289960084507e-05)) * v6) + 0.00015476008746767933) * v6) +
        (-0.0002710739967053238);
    const double v12 = (((((v11 * v6) + 0.0004746958768477391) * v6) + (-0.0008315005450441054)) * v6) + 0.0014573725179120097;
    const double v13 = (((((v12 * v6) + (-0.0025566860782075766)) * v6) + 0.004491813908704202) * v6) + (-0.007910468810045035);
    const double v14 = (((((v13 * v6) + 0.013985786172743897) * v6) + (-0.024890048487538993)) * v6) + 0.044799654453102654;
    const double v15 = (((((v14 * v6) + (-0.0822855863558077)) * v6) + 0.15712011335203893) * v6) + (-0.32625462786810555);
    const int64_t v16 = int64_of_float64(v0);
    const int64_t v17 = (v16 - 4604544271217802189LL) >> 52LL;
    const double v18 = float64_of_int64(v17 + 4843621399236968448LL) - 6755399441055744.0;
    const double v19 = float64_of_int64(v16 - (v17 << 52LL)) - 1.0;
    const double v20 = (0.5 * v19) * v19;
    const double v21 = v19 * (1.0 / (v19 + 2.0));
    const double v22 = v21 * v21;
    const double v23 = (((((0.1325104517628035 * v22) + 0.1325015225984964) * v22) + 0.15387089097838486) * v22) +
        0.18181775707300832;
    const double v24 = (((((v23 * v22) + 0.22222222646219045) * v22) + 0.2857142856909015) * v22) + 0.4000000000000623;
    const double v25 = (v18 * 1.9082149292705877e-10) + (v21 * (v20 + (v22 * ((v24 * v22) + 0.6666666666666666))));
    const double v26 = v18 * 0.6931471803691238;
    const double v27 = v26 + v19;
    const double v28 = ((v26 - v27) + v19) + (v25 - v20);
    const double v29 = v27 + v28;
    const double v30 = v4 * v4;
    const double v31 = select_float64(v3, -0.5, select_float64(v2, -1.0, 0.0));
    const double v32 = select_float64(v1, v31 + 1.0, v31) * v4;
    const double v33 = select_float64(v3, v29, (v5 - 0.4616321449683623) * ((v15 * v6) + 0.8581832171262995));
    const double v34 = v33 + v32;
    const double v35 = v34 - v33;
    const double v36 = (((((-12.7234502281439) * v30) + 11.864691302870087) * v30) + (-5.240779799884499)) * v30;
    const double v37 = ((((v36 + 1.5212797988248907) * v30) + (-0.35297125566629095)) * v30) + 0.07934255354419496;
    const double v38 = (((((v37 * v30) + (-0.020968615102043883)) * v30) + 0.00757320870416685) * v30) + (-0.00416663504759843);
    const double v39 = (((((v38 * v30) + 0.003968253762674595) * v30) + (-0.008333333332805764)) * v30) + 0.0833333333333331;
    const double v40 = ((v33 - (v34 - v35)) + (v32 - v35)) + select_float64(v3, (v28 - (v29 - v27)) - (v30 * v39),
        -3.8696054857960516e-17);
    const double v41 = v0 - rint(v0);
    const int64_t v42 = -(int64_t)(fabs(v41) > 0.25);
    const double v43 = select_float64(v42, float64_of_int64(int64_of_float64(0.5) ^ (int64_of_float64(v41) & INT64_MIN)) - v41,
        v41);
    const double v44 = v43 * v43;
    const double v45 = (((((1737024708.309517 * v44) + (-378750546.5880316)) * v44) + 76487821.23290443) * v44) +
        (-2291660.63450322);
    const double v46 = (((((v45 * v44) + 1197877.7179690935) * v44) + 197575.78612141928) * v44) + 53575.91617115428;
    const double v47 = (((((v46 * v44) + 13270.529477854112) * v44) + 3320.2424436606843) * v44) + 830.023165130044;
    const double v48 = (((((v47 * v44) + 207.50933048873839) * v44) + 51.88449612110903) * v44) + 12.98787880461309;
    const double v49 = (v43 * v44) * ((v48 * v44) + 3.2898681336963977);
    const double v50 = v43 + v49;
    const double v51 = v50 - v43;
    const double v52 = (v43 - (v50 - v51)) + (v49 - v51);
    const double v53 = 1.0 / v50;
    const double v54 = select_float64(v42, 9.869604401089358, v53);
    const double v55 = v54 * v50;
    const double v56 = float64_of_int64(int64_of_float64(v54) & (-4294967296LL));
    const double v57 = float64_of_int64(int64_of_float64(v50) & (-4294967296LL));
    const double v58 = v54 - v56;
    const double v59 = v50 - v57;
    const double v60 = ((((v56 * v57) - v55) + (v56 * v59)) + (v58 * v57)) + (v58 * v59);
    const double v61 = select_float64(v42, v55, v53);
    const double v62 = v61 + v34;
    const double v63 = v62 - v61;
    const double v64 = select_float64(v42, v60 + ((v50 * 6.265295508739711e-16) + (v52 * 9.869604401089358)), v53 * (((1.0 -
        v55) - v60) - (v53 * v52)));
    const double v65 = select_float64(v1, v62 + (((v61 - (v62 - v63)) + (v34 - v63)) + (v64 + v40)),
        select_float64(-(int64_t)(v0 == INFINITY), v0, v34 + v40));
    return select_float64(-(int64_t)(v41 == 0.0) & -(int64_t)(x <= 0.0), NAN, v65);
}

INLINE float erf_inv_float32(float x) {
    const double v0 = (double)x;
    const int64_t v1 = int64_of_float64(1.0 - (v0 * v0));
    const int64_t v2 = (v1 - 4604544271217802189LL) >> 52LL;
    const double v3 = float64_of_int64(v1 - (v2 << 52LL));
    const double v4 = (v3 - 1.0) * (1.0 / (v3 + 1.0));
    const double v5 = v4 * v4;
    const double v6 = (((((0.23617756739094517 * v5) + 0.28534970952302885) * v5) + 0.40000386104867364) * v5) +
        0.6666666523929964;
    const double v7 = (float64_of_int64(v2 + 4843621399236968448LL) - 6755399441055744.0) * 0.6931471805599453;
    const double v8 = (v7 + 7.5) + (v4 * ((v6 * v5) + 2.0000000000084324));
    const double v9 = v8 * v8;
    const double v10 = v9 * v9;
    const double v11 = (((9.180151435077664e-18 * v10) + (-4.640325138774702e-13)) * v10) + 2.2548646369518152e-09;
    const double v12 = ((((-1.1377430087060656e-19) * v10) + 3.3726904096459296e-15) * v10) + (-7.617344469400974e-12);
    const double v13 = ((((v11 * v10) + (-6.999388522274174e-06)) * v10) + 1.5719649041508799) + (v9 * ((((v12 * v10) +
        2.5288445408905946e-07) * v10) + (-0.005436354330884808)));
    const double v14 = ((((-2.49806693884281e-18) * v10) + (-3.2985361452704493e-14)) * v10) + 6.075255004969255e-11;
    const double v15 = (((6.018491778793186e-16 * v10) + (-2.3275894968330044e-12)) * v10) + 3.0519373328144144e-08;
    const double v16 = ((((v14 * v10) + 1.0932147675474671e-06) * v10) + (-0.1816011575191001)) + (v9 * ((v15 * v10) +
        (-0.0002617129129526908)));
    const float v17 = fabsf(x);
    const float v18 = select_float32(-(int32_t)(v17 == 1.0f), float32_of_int32(int32_of_float32(INFINITY) ^ (int32_of_float32(x)
        & INT32_MIN)), NAN);
    return select_float32(-(int32_t)(v17 < 1.0f), (float)(v0 * ((v13 + (v8 * v16)) + 1.0)), v18);
}

INLINE double erf_inv_float64(double x) {
    const int64_t v0 = int64_of_float64((1.0 - x) * (1.0 + x));
    const int64_t v1 = (v0 - 4604544271217802189LL) >> 52LL;
    const double v2 = float64_of_int64(v1 + 4843621399236968448LL) - 6755399441055744.0;
    const double v3 = float64_of_int64(v0 - (v1 << 52LL)) - 1.0;
    const double v4 = (0.5 * v3) * v3;
    const double v5 = v3 * (1.0 / (v3 + 2.0));
    const double v6 = v5 * v5;
    const double v7 = (((((0.1325104517628035 * v6) + 0.1325015225984964) * v6) + 0.15387089097838486) * v6) +
        0.18181775707300832;
    const double v8 = (((((v7 * v6) + 0.22222222646219045) * v6) + 0.2857142856909015) * v6) + 0.4000000000000623;
    const double v9 = ((v2 * 1.9082149292705877e-10) + (v5 * (v4 + (v6 * ((v8 * v6) + 0.6666666666666666))))) - v4;
    const double v10 = v2 * 0.6931471803691238;
    const double v11 = v10 + v3;
    const double v12 = v11 + (((v10 - v11) + v3) + v9);
    const int64_t v13 = -(int64_t)(v12 > (-6.25));
    const double v14 = sqrt(-v12);
    const double v15 = select_float64(v13, v12 + 1.5, (1.0 / v14) - 0.28125);
    const double v16 = (select_float64(v13, -3.3757470339811498e-21, 975355112496.2087) * v15) + select_float64(v13,
        -1.2717759044864696e-19, -68479553794.73971);
    const double v17 = (((v16 * v15) + select_float64(v13, -1.933786352948826e-18, -108209250618.50333)) * v15) +
        select_float64(v13, -1.2923319824979604e-17, 11571477479.09294);
    const double v18 = (((v17 * v15) + select_float64(v13, 4.602520097638993e-18, 5331080224.025623)) * v15) +
        select_float64(v13, 6.595464455923852e-16, -898113821.7705412);
    const double v19 = (((v18 * v15) + select_float64(v13, 3.0670261832459228e-15, -139445587.2020218)) * v15) +
        select_float64(v13, -1.533237963349831e-14, 44244343.10691238);
    const double v20 = (((v19 * v15) + select_float64(v13, -1.8175488492883551e-13, 916255.6275375144)) * v15) +
        select_float64(v13, 8.433006401391261e-14, -1633428.6449537636);
    const double v21 = (((v20 * v15) + select_float64(v13, 8.327652075186768e-12, 100223.57149501184)) * v15) +
        select_float64(v13, 2.2792361495167478e-11, 51858.67116038925);
    const double v22 = (((v21 * v15) + select_float64(v13, -3.02730283900907e-10, -5977.160116142327)) * v15) +
        select_float64(v13, -2.019761804786488e-09, -1778.2491274069992);
    const double v23 = (((v22 * v15) + select_float64(v13, 7.232303805950083e-09, 228.5906933239853)) * v15) +
        select_float64(v13, 1.1770360237124675e-07, 65.26179747041219);
    const double v24 = (((v23 * v15) + select_float64(v13, 6.507545144979309e-08, 0.11096662386511011)) * v15) +
        select_float64(v13, -5.372773986494177e-06, -4.076177580760427);
    const double v25 = (((v24 * v15) + select_float64(v13, -2.328816793962255e-05, 0.2055786636429378)) * v15) +
        select_float64(v13, 0.0001776693151412103, -0.786089388390387);
    const double v26 = (((v25 * v15) + select_float64(v13, 0.0020923279303876447, 0.45094383193283416)) * v15) +
        select_float64(v13, 0.000879764712661617, 0.12723234157809593);
    const double v27 = (((v26 * v15) + select_float64(v13, -0.25036244534245294, -0.1916628765109056)) * v15) +
        select_float64(v13, 0.25206384058344206, -0.04615329862391107);
    const double v28 = fabs(x);
    const double v29 = select_float64(v13, v28, v14);
    const int64_t v30 = int64_of_float64(x) & INT64_MIN;
    const double v31 = select_float64(-(int64_t)(v28 == 1.0), float64_of_int64(int64_of_float64(INFINITY) ^ v30), NAN);
    return select_float64(-(int64_t)(v28 < 1.0), float64_of_int64(int64_of_float64(v29 + (v29 * v27)) ^ v30), v31);
}

INLINE float rem_float32(float x, float y) {
    const int32_t v0 = int32_of_float32(x);
    const int32_t v1 = v0 & 2147483647;
    const double v2 = select_float64((int64_t)-(int32_t)(v1 < 8388608), (double)v1 * 1.401298464324817e-45,
        (double)float32_of_int32(v1));
    const int32_t v3 = int32_of_float32(y) & 2147483647;
    const double v4 = select_float64((int64_t)-(int32_t)(v3 < 8388608), (double)v3 * 1.401298464324817e-45,
        (double)float32_of_int32(v3));
    const double v5 = 1.0 / v4;
    const double v6 = v2 * 2.698802673467014e-79;
    const double v7 = (v6 - (rint(v6 * v5) * v4)) * 536870912.0;
    const double v8 = (v7 - (rint(v7 * v5) * v4)) * 536870912.0;
    const double v9 = (v8 - (rint(v8 * v5) * v4)) * 536870912.0;
    const double v10 = (v9 - (rint(v9 * v5) * v4)) * 536870912.0;
    const double v11 = (v10 - (rint(v10 * v5) * v4)) * 536870912.0;
    const double v12 = (v11 - (rint(v11 * v5) * v4)) * 536870912.0;
    const double v13 = (v12 - (rint(v12 * v5) * v4)) * 536870912.0;
    const double v14 = (v13 - (rint(v13 * v5) * v4)) * 536870912.0;
    const double v15 = (v14 - (rint(v14 * v5) * v4)) * 536870912.0;
    const double v16 = v15 - (rint(v15 * v5) * v4);
    const double v17 = select_float64(-(int64_t)(v2 < v4), v2, select_float64(-(int64_t)(v16 < 0.0), v16 + v4, v16));
    const float v18 = select_float32((int32_t)-(int64_t)(v17 < 1.1754943508222875e-38), float32_of_int32((int32_t)(v17 *
        7.1362384635298e+44)), (float)v17);
    return float32_of_int32(int32_of_float32(v18) ^ (v0 & INT32_MIN));
}

INLINE double rem_float64(double x, double y) {
    const double v0 = fabs(x);
    const double v1 = fabs(y);
    const double v2 = rint(v0 / v1);
    const double v3 = float64_of_int64(int64_of_float64(v1) & (-134217728LL));
    const double v4 = (v0 - (v2 * v3)) - (v2 * (v1 - v3));
    const double v5 = select_float64(-(int64_t)(v0 < v1), v0, select_float64(-(int64_t)(v4 < 0.0), v4 + v1, v4));
    return float64_of_int64(int64_of_float64(v5) ^ (int64_of_float64(x) & INT64_MIN));
}

INLINE int64_t rem_is_beyond_float64(double x, double y) {
    const double v0 = fabs(x);
    const double v1 = fabs(y);
    const int64_t v2 = (-(int64_t)((v0 / v1) >= 33554432.0) & -(int64_t)(v0 < INFINITY)) & -(int64_t)(v1 > 0.0);
    return v2 | (-(int64_t)(v1 < 1.0261342003245941e-289) & -(int64_t)(int64_of_float64(v1) > 0LL));
}

INLINE float lgamma_of_positive_float32(float x) {
    const int32_t v0 = int32_of_float32(x);
    const int32_t v1 = v0 & 2147483647;
    const double v2 = select_float64((int64_t)-(int32_t)(v1 < 8388608), (double)v1 * 1.401298464324817e-45,
        (double)float32_of_int32(v1));
    const double v3 = select_float64((int64_t)-(int32_t)(v0 < 0), -v2, v2);
    const double v4 = fabs(v3);
    const int64_t v5 = -(int64_t)(v4 <= 0.5);
    const int64_t v6 = -(int64_t)(v4 > 2.5);
    const int64_t v7 = -(int64_t)(v4 >= 3.5);
    const double v8 = v4 - 1.0;
    const double v9 = select_float64(v5 | v7, v4, select_float64(v6, v8, 1.0));
    const int64_t v10 = int64_of_float64(v9);
    const int64_t v11 = (v10 - 4604544271217802189LL) >> 52LL;
    const double v12 = float64_of_int64(v10 - (v11 << 52LL));
    const double v13 = (v12 - 1.0) * (1.0 / (v12 + 1.0));
    const double v14 = v13 * v13;
    const double v15 = ((((0.23617756739094517 * v14) + 0.28534970952302885) * v14) + 0.40000386104867364) * v14;
    const double v16 = (float64_of_int64(v11 + 4843621399236968448LL) - 6755399441055744.0) * 0.6931471805599453;
    const double v17 = select_float64(-(int64_t)(v9 < INFINITY), v16 + (v13 * (((v15 + 0.6666666523929964) * v14) +
        2.0000000000084324)), v9);
    const double v18 = select_float64(v5, v3, select_float64(v6, v4 - 2.0, v8));
    const int64_t v19 = -(int64_t)(v18 < 0.23);
    const int64_t v20 = -(int64_t)(v18 > 0.73);
    const int64_t v21 = ~(v19 | v20);
    const double v22 = select_float64(v19, v18, v18 - select_float64(v20, 1.0, 0.46163214496836236));
    const double v23 = (select_float64(v20, 0.0, select_float64(v19, 0.8358309160829983, 0.0)) * v22) + select_float64(v20, 0.0,
        select_float64(v19, 0.6770980103170416, 0.0));
    const double v24 = ((v23 * v22) + select_float64(v20, 0.0, select_float64(v19, 0.2536256427529752, 0.0))) * v22;
    const double v25 = ((v24 + select_float64(v20, 0.0, select_float64(v19, -0.17074004450943067, 0.0))) * v22) +
        select_float64(v20, 0.0, select_float64(v19, 0.06319748976737659, 0.0));
    const double v26 = select_float64(v20, -0.00015695452817794209, select_float64(v19, -0.109950542624426, 0.0));
    const double v27 = select_float64(v20, 0.0005097785227764992, select_float64(v19, 0.1278145373883235,
        -0.00355184101345148));
    const double v28 = select_float64(v20, -0.001203488547243948, select_float64(v19, -0.14395650514787584,
        0.006367974028939927));
    const double v29 = select_float64(v20, 0.002891897519421756, select_float64(v19, 0.169494322022572, -0.010335169524384324));
    const double v30 = select_float64(v20, -0.007384996554170427, select_float64(v19, -0.2073890081951031,
        0.017960810557296654));
    const double v31 = select_float64(v20, 0.020580735395244406, select_float64(v19, 0.2705815456289961, -0.03278793162308746));
    const double v32 = ((((((((((v25 * v22) + v26) * v22) + v27) * v22) + v28) * v22) + v29) * v22) + v30) * v22;
    const double v33 = select_float64(v20, -0.06735231127853991, select_float64(v19, -0.4006856049288188, 0.06462505850022254));
    const double v34 = select_float64(v20, 0.3224670342024227, select_float64(v19, 0.8224670308215442, -0.14758772698133826));
    const double v35 = select_float64(v20, 0.422784335132719, select_float64(v19, -0.5772156649337791, 0.4838361224976864));
    const double v36 = (((((((v32 + v31) * v22) + v33) * v22) + v34) * v22) + v35) * select_float64(v21, v22 * v22, v22);
    const double v37 = select_float64(v5, -1.0, 1.0);
    const double v38 = 1.0 / v4;
    const double v39 = v4 - 0.5;
    const double v40 = v38 * v38;
    const double v41 = ((((-0.00048557835253644634) * v40) + 0.000788490493999184) * v40) + (-0.002777697293318267);
    const double v42 = select_float64(v7, v39 * v17, v37 * v17) + select_float64(v7, -v39, select_float64(v21,
        -0.1214862905358496, 0.0));
    const double v43 = 0.0 + ((v39 * 0.0) + ((v38 * ((v41 * v40) + 0.08333333313551301)) + 0.41893853320467267));
    const double v44 = select_float64(v7, v43, (v37 * 0.0) + (select_float64(v21, -1.0512796339341318e-17, 0.0) + v36));
    const double v45 = select_float64(-(int64_t)(v3 == INFINITY), v3, v42 + select_float64(-(int64_t)(v4 >=
        1.0715086071862673e+301), 0.0, v44 + 0.0));
    return (float)v45;
}

INLINE double lgamma_of_positive_float64(double x) {
    const double v0 = fabs(x);
    const int64_t v1 = -(int64_t)(v0 <= 0.5);
    const int64_t v2 = -(int64_t)(v0 > 2.5);
    const int64_t v3 = -(int64_t)(v0 >= 3.5);
    const double v4 = v0 - 1.0;
    const int64_t v5 = int64_of_float64(select_float64(v1 | v3, v0, select_float64(v2, v4, 1.0)));
    const int64_t v6 = (v5 - 4604544271217802189LL) >> 52LL;
    const double v7 = float64_of_int64(v6 + 4843621399236968448LL) - 6755399441055744.0;
    const double v8 = float64_of_int64(v5 - (v6 << 52LL)) - 1.0;
    const double v9 = (0.5 * v8) * v8;
    const double v10 = v8 * (1.0 / (v8 + 2.0));
    const double v11 = v10 * v10;
    const double v12 = (((((0.1325104517628035 * v11) + 0.1325015225984964) * v11) + 0.15387089097838486) * v11) +
        0.18181775707300832;
    const double v13 = (((((v12 * v11) + 0.22222222646219045) * v11) + 0.2857142856909015) * v11) + 0.4000000000000623;
    const double v14 = (v7 * 1.9082149292705877e-10) + (v10 * (v9 + (v11 * ((v13 * v11) + 0.6666666666666666))));
    const double v15 = v7 * 0.6931471803691238;
    const double v16 = v15 + v8;
    const double v17 = ((v15 - v16) + v8) + (v14 - v9);
    const double v18 = v16 + v17;
    const double v19 = v17 - (v18 - v16);
    const double v20 = select_float64(v1, x, select_float64(v2, v0 - 2.0, v4));
    const int64_t v21 = -(int64_t)(v20 < 0.23);
    const int64_t v22 = -(int64_t)(v20 > 0.73);
    const int64_t v23 = ~(v21 | v22);
    const double v24 = select_float64(v21, v20, v20 - select_float64(v22, 1.0, 0.46163214496836236));
    const double v25 = (select_float64(v22, 0.0, select_float64(v21, -3.8787228322309626, 0.0)) * v24) + select_float64(v22,
        0.0, select_float64(v21, -9.022097692086705, 0.0));
    const double v26 = ((v25 * v24) + select_float64(v22, 0.0, select_float64(v21, -8.455710157580139, 0.0))) * v24;
    const double v27 = ((v26 + select_float64(v22, 0.0, select_float64(v21, -2.9112615104434005, 0.0))) * v24) +
        select_float64(v22, 0.0, select_float64(v21, 0.5996861395480989, 0.0));
    const double v28 = ((v27 * v24) + select_float64(v22, 0.0, select_float64(v21, 0.900118178454683, 0.0))) * v24;
    const double v29 = ((v28 + select_float64(v22, 0.0, select_float64(v21, 0.111798555154324, 0.0))) * v24) +
        select_float64(v22, 0.0, select_float64(v21, -0.008961760202019387, 0.0));
    const double v30 = ((v29 * v24) + select_float64(v22, 0.0, select_float64(v21, -0.08798349252315084, 0.0))) * v24;
    const double v31 = v30 + select_float64(v22, 4.820042858124523e-07, select_float64(v21, 0.06308241875962217, 0.0));
    const double v32 = select_float64(v22, -1.877502658391097e-06, select_float64(v21, -0.06465690901686698,
        0.0001338765307540892));
    const double v33 = select_float64(v22, 4.439510366723038e-06, select_float64(v21, 0.07161213008357376,
        -0.00024421468157336874));
    const double v34 = select_float64(v22, -9.495039084794555e-06, select_float64(v21, -0.07700697823459958,
        0.00035528444267146517));
    const double v35 = select_float64(v22, 2.051034624305208e-05, select_float64(v21, 0.0833422784575307,
        -0.0005525891008250154));
    const double v36 = select_float64(v22, -4.492053710383026e-05, select_float64(v21, -0.09095244832153213,
        0.0008779415220952526));
    const double v37 = select_float64(v22, 9.945655459308748e-05, select_float64(v21, 0.10009979674852026,
        -0.0014023187372602614));
    const double v38 = ((((((((((v31 * v24) + v32) * v24) + v33) * v24) + v34) * v24) + v35) * v24) + v36) * v24;
    const double v39 = select_float64(v22, -0.0002231550298216274, select_float64(v21, -0.11133428423297789,
        0.0022597764201756857));
    const double v40 = select_float64(v22, 0.0005096695865487738, select_float64(v21, 0.1255096641453937,
        -0.0036845680803733604));
    const double v41 = select_float64(v22, -0.0011927539052192105, select_float64(v21, -0.14404989665964632,
        0.006100535789712836));
    const double v42 = select_float64(v22, 0.0028905103290424033, select_float64(v21, 0.1695571770424074,
        -0.010314223054778877));
    const double v43 = select_float64(v22, -0.007385551028750301, select_float64(v21, -0.20738555102895964,
        0.01797067511736517));
    const double v44 = ((((((((((v38 + v37) * v24) + v39) * v24) + v40) * v24) + v41) * v24) + v42) * v24) + v43;
    const double v45 = select_float64(v22, 0.0205808084278038, select_float64(v21, 0.27058080842761423, -0.032788541088383964));
    const double v46 = select_float64(v22, -0.0673523010531977, select_float64(v21, -0.4006856343865311, 0.06462494023890529));
    const double v47 = select_float64(v22, 0.32246703342411315, select_float64(v21, 0.8224670334241134, -0.14758772299453085));
    const double v48 = select_float64(v22, 0.42278433509846713, select_float64(v21, -0.5772156649015329, 0.4838361227238106));
    const double v49 = ((((((((v44 * v24) + v45) * v24) + v46) * v24) + v47) * v24) + v48) * select_float64(v23, v24 * v24,
        v24);
    const double v50 = select_float64(v1, -1.0, 1.0);
    const double v51 = 1.0 / v0;
    const double v52 = v0 - 0.5;
    const double v53 = v51 * v51;
    const double v54 = ((((-0.11361450011575464) * v53) + 0.06782859946004352) * v53) + (-0.022032025434103184);
    const double v55 = (((((v54 * v53) + 0.006055636922500353) * v53) + (-0.0019063886109063305)) * v53) +
        0.0008415293928525752;
    const double v56 = (((((v55 * v53) + (-0.000595235510216659)) * v53) + 0.00079365077813379) * v53) +
        (-0.0027777777777414107);
    const double v57 = v52 * v18;
    const double v58 = float64_of_int64(int64_of_float64(v52) & (-4294967296LL));
    const double v59 = float64_of_int64(int64_of_float64(v18) & (-4294967296LL));
    const double v60 = v52 - v58;
    const double v61 = v18 - v59;
    const double v62 = select_float64(v3, v57, v50 * v18);
    const double v63 = select_float64(v3, -v52, select_float64(v23, -0.1214862905358496, 0.0));
    const double v64 = v62 + v63;
    const double v65 = v64 - v62;
    const double v66 = (((((v58 * v59) - v57) + (v58 * v61)) + (v60 * v59)) + (v60 * v61)) + ((v52 * v19) + ((v51 * ((v56 * v53)
        + 0.08333333333333331)) + 0.41893853320467267));
    const double v67 = select_float64(v3, v66, (v50 * v19) + (select_float64(v23, -1.0512796339341318e-17, 0.0) + v49));
    const double v68 = select_float64(-(int64_t)(v0 >= 1.0715086071862673e+301), 0.0, v67 + ((v62 - (v64 - v65)) + (v63 -
        v65)));
    return select_float64(-(int64_t)(x == INFINITY), x, v64 + v68);
}

INLINE float lgamma_of_small_float32(float x) {
    const int32_t v0 = int32_of_float32(x);
    const int32_t v1 = v0 & 2147483647;
    const double v2 = select_float64((int64_t)-(int32_t)(v1 < 8388608), (double)v1 * 1.401298464324817e-45,
        (double)float32_of_int32(v1));
    const double v3 = v2 - floor(v2);
    const double v4 = (1.0 * select_float64(-(int64_t)(v2 >= 1.0), v3 + 1.0, 1.0)) * select_float64(-(int64_t)(v2 >= 2.0), v3 +
        2.0, 1.0);
    const double v5 = (v4 * select_float64(-(int64_t)(v2 >= 3.0), v3 + 3.0, 1.0)) * select_float64(-(int64_t)(v2 >= 4.0), v3 +
        4.0, 1.0);
    const double v6 = (v5 * select_float64(-(int64_t)(v2 >= 5.0), v3 + 5.0, 1.0)) * select_float64(-(int64_t)(v2 >= 6.0), v3 +
        6.0, 1.0);
    const double v7 = v6 * select_float64(-(int64_t)(v2 >= 7.0), v3 + 7.0, 1.0);
    const double v8 = (((2.0722151492967487e-06 * v3) + (-2.6276073748192415e-05)) * v3) + 0.00013571323982836803;
    const double v9 = (((((v8 * v3) + (-0.00022191607780778824)) * v3) + (-0.0011610527679984546)) * v3) +
        0.0072171480057234005;
    const double v10 = (((((v9 * v3) + (-0.009621424509193946)) * v3) + (-0.04219784776834437)) * v3) + 0.16653862655584714;
    const double v11 = (((((v10 * v3) + (-0.04200263625069177)) * v3) + (-0.655878071469469)) * v3) + 0.5772156649007008;
    const double v12 = (v11 * v3) + 1.0000000000000022;
    const double v13 = v2 - rint(v2);
    const double v14 = v13 * v13;
    const double v15 = (((2.4499018230755104e-07 * v14) + (-6.972064614848834e-06)) * v14) + 0.0001484278294176245;
    const double v16 = (((((v15 * v14) + (-0.0023460808935711467)) * v14) + 0.026147847805438662) * v14) + (-0.1907518241215);
    const double v17 = v13 + ((v13 * v14) * ((((v16 * v14) + 0.8117424252833401) * v14) + (-1.6449340668482264)));
    const int64_t v18 = (int64_t)-(int32_t)(v0 < 0);
    const double v19 = select_float64(v18, fabs(v17) * v7, v2 * v12);
    const double v20 = select_float64(v18, v12, v7) / v19;
    const int64_t v21 = int64_of_float64(v20);
    const int64_t v22 = (v21 - 4604544271217802189LL) >> 52LL;
    const double v23 = float64_of_int64(v21 - (v22 << 52LL));
    const double v24 = (v23 - 1.0) * (1.0 / (v23 + 1.0));
    const double v25 = v24 * v24;
    const double v26 = ((((0.23617756739094517 * v25) + 0.28534970952302885) * v25) + 0.40000386104867364) * v25;
    const double v27 = (float64_of_int64(v22 + 4843621399236968448LL) - 6755399441055744.0) * 0.6931471805599453;
    const double v28 = select_float64(-(int64_t)(v20 < INFINITY), v27 + (v24 * (((v26 + 0.6666666523929964) * v25) +
        2.0000000000084324)), v20);
    return (float)select_float64(-(int64_t)(v19 == 0.0), INFINITY, v28);
}

INLINE float digamma_of_positive_float32(float x) {
    const int32_t v0 = int32_of_float32(x);
    const int32_t v1 = v0 & 2147483647;
    const double v2 = select_float64((int64_t)-(int32_t)(v1 < 8388608), (double)v1 * 1.401298464324817e-45,
        (double)float32_of_int32(v1));
    const double v3 = select_float64((int64_t)-(int32_t)(v0 < 0), -v2, v2);
    const int64_t v4 = -(int64_t)(v3 < 1.0);
    const int64_t v5 = -(int64_t)(v3 >= 2.75);
    const double v6 = 1.0 / v3;
    const double v7 = select_float64(v4, v3, v3 - 1.0);
    const double v8 = v7 - 0.75;
    const double v9 = ((((-7.92721431095437e-05) * v8) + 0.00029159111652907356) * v8) + (-0.0004054906678037517);
    const double v10 = (((((v9 * v8) + 0.0003786587194637741) * v8) + (-0.0006771887622374946)) * v8) + 0.0014778765363986494;
    const double v11 = (((((v10 * v8) + (-0.0026341969660041613)) * v8) + 0.004495634071479029) * v8) + (-0.00789050119415583);
    const double v12 = (((((v11 * v8) + 0.013983522239219613) * v8) + (-0.02489266172265899)) * v8) + 0.04479996634712008;
    const double v13 = (((((v12 * v8) + (-0.08228543478855817)) * v8) + 0.15712009992577983) * v8) + (-0.32625463044687614);
    const int64_t v14 = int64_of_float64(v3);
    const int64_t v15 = (v14 - 4604544271217802189LL) >> 52LL;
    const double v16 = float64_of_int64(v14 - (v15 << 52LL));
    const double v17 = (v16 - 1.0) * (1.0 / (v16 + 1.0));
    const double v18 = v17 * v17;
    const double v19 = ((((0.23617756739094517 * v18) + 0.28534970952302885) * v18) + 0.40000386104867364) * v18;
    const double v20 = (float64_of_int64(v15 + 4843621399236968448LL) - 6755399441055744.0) * 0.6931471805599453;
    const double v21 = select_float64(-(int64_t)(v3 < INFINITY), v20 + (v17 * (((v19 + 0.6666666523929964) * v18) +
        2.0000000000084324)), v3);
    const double v22 = v6 * v6;
    const double v23 = select_float64(v5, v21, (v7 - 0.4616321449683623) * ((v13 * v8) + 0.8581832172122287)) +
        (select_float64(v5, -0.5, select_float64(v4, -1.0, 0.0)) * v6);
    const double v24 = ((((0.003779582837974146 * v22) + (-0.003816665422057972)) * v22) + 0.003953559964983762) * v22;
    const double v25 = select_float64(v5, 0.0 - (v22 * (((v24 + (-0.008333108785105563)) * v22) + 0.08333333277810587)),
        -3.8696054857960516e-17);
    return (float)select_float64(-(int64_t)(v3 == INFINITY), v3, v23 + (0.0 + v25));
}

INLINE double digamma_of_positive_float64(double x) {
    const int64_t v0 = -(int64_t)(x < 1.0);
    const int64_t v1 = -(int64_t)(x >= 2.75);
    const double v2 = 1.0 / x;
    const double v3 = select_float64(v0, x, x - 1.0);
    const double v4 = v3 - 0.75;
    const double v5 = ((((-8.573268198331544e-08) * v4) + 4.4392220940504484e-07) * v4) + (-8.028144236420675e-07);
    const double v6 = (((((v5 * v4) + 4.579241276801617e-07) * v4) + (-6.04180581389236e-08)) * v4) + 1.3783698461900156e-06;
    const double v7 = (((((v6 * v4) + (-3.968624583722955e-06)) * v4) + 6.057380551073398e-06) * v4) + (-8.954798397879872e-06);
    const double v8 = (((((v7 * v4) + 1.596647519899287e-05) * v4) + (-2.9017526713873566e-05)) * v4) + 5.0796986049185255e-05;
    const double v9 = (((((v8 * v4) + (-8.844289960084507e-05)) * v4) + 0.00015476008746767933) * v4) +
        (-0.0002710739967053238);
    const double v10 = (((((v9 * v4) + 0.0004746958768477391) * v4) + (-0.0008315005450441054)) * v4) + 0.0014573725179120097;
    const double v11 = (((((v10 * v4) + (-0.0025566860782075766)) * v4) + 0.004491813908704202) * v4) + (-0.007910468810045035);
    const double v12 = (((((v11 * v4) + 0.013985786172743897) * v4) + (-0.024890048487538993)) * v4) + 0.044799654453102654;
    const double v13 = (((((v12 * v4) + (-0.0822855863558077)) * v4) + 0.15712011335203893) * v4) + (-0.32625462786810555);
    const int64_t v14 = int64_of_float64(x);
    const int64_t v15 = (v14 - 4604544271217802189LL) >> 52LL;
    const double v16 = float64_of_int64(v15 + 4843621399236968448LL) - 6755399441055744.0;
    const double v17 = float64_of_int64(v14 - (v15 << 52LL)) - 1.0;
    const double v18 = (0.5 * v17) * v17;
    const double v19 = v17 * (1.0 / (v17 + 2.0));
    const double v20 = v19 * v19;
    const double v21 = (((((0.1325104517628035 * v20) + 0.1325015225984964) * v20) + 0.15387089097838486) * v20) +
        0.18181775707300832;
    const double v22 = (((((v21 * v20) + 0.22222222646219045) * v20) + 0.2857142856909015) * v20) + 0.4000000000000623;
    const double v23 = (v16 * 1.9082149292705877e-10) + (v19 * (v18 + (v20 * ((v22 * v20) + 0.6666666666666666))));
    const double v24 = v16 * 0.6931471803691238;
    const double v25 = v24 + v17;
    const double v26 = ((v24 - v25) + v17) + (v23 - v18);
    const double v27 = v25 + v26;
    const double v28 = v2 * v2;
    const double v29 = select_float64(v1, -0.5, select_float64(v0, -1.0, 0.0)) * v2;
    const double v30 = select_float64(v1, v27, (v3 - 0.4616321449683623) * ((v13 * v4) + 0.8581832171262995));
    const double v31 = v30 + v29;
    const double v32 = v31 - v30;
    const double v33 = (((((-12.7234502281439) * v28) + 11.864691302870087) * v28) + (-5.240779799884499)) * v28;
    const double v34 = ((((v33 + 1.5212797988248907) * v28) + (-0.35297125566629095)) * v28) + 0.07934255354419496;
    const double v35 = (((((v34 * v28) + (-0.020968615102043883)) * v28) + 0.00757320870416685) * v28) + (-0.00416663504759843);
    const double v36 = (((((v35 * v28) + 0.003968253762674595) * v28) + (-0.008333333332805764)) * v28) + 0.0833333333333331;
    const double v37 = ((v30 - (v31 - v32)) + (v29 - v32)) + select_float64(v1, (v26 - (v27 - v25)) - (v28 * v36),
        -3.8696054857960516e-17);
    return select_float64(-(int64_t)(x == INFINITY), x, v31 + v37);
}

INLINE float rem_of_small_quotient_float32(float x, float y) {
    const int32_t v0 = int32_of_float32(x);
    const int32_t v1 = v0 & 2147483647;
    const double v2 = select_float64((int64_t)-(int32_t)(v1 < 8388608), (double)v1 * 1.401298464324817e-45,
        (double)float32_of_int32(v1));
    const int32_t v3 = int32_of_float32(y) & 2147483647;
    const double v4 = select_float64((int64_t)-(int32_t)(v3 < 8388608), (double)v3 * 1.401298464324817e-45,
        (double)float32_of_int32(v3));
    const double v5 = v2 * 1.0;
    const double v6 = v5 - (rint(v5 * (1.0 / v4)) * v4);
    const double v7 = select_float64(-(int64_t)(v2 < v4), v2, select_float64(-(int64_t)(v6 < 0.0), v6 + v4, v6));
    const float v8 = select_float32((int32_t)-(int64_t)(v7 < 1.1754943508222875e-38), float32_of_int32((int32_t)(v7 *
        7.1362384635298e+44)), (float)v7);
    return float32_of_int32(int32_of_float32(v8) ^ (v0 & INT32_MIN));
}
