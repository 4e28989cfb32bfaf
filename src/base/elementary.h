/* Elementary functions of doubles, by additions, products, quotients and roots alone, which IEEE 754 rounds
 * the same way everywhere. So whatever training computes by them has the same bits on every machine; those of
 * the C library differ from one library to another. Accurate to 2 units in the last place, but for `power`.
 * The polynomials are those of fdlibm (Sun Microsystems 1993). */
#ifndef NEAP_BASE_ELEMENTARY_H
#define NEAP_BASE_ELEMENTARY_H

/* Return e^x and ln x, with the infinities and NaN of the C library's. */
double natural_exponential(double x);
double natural_logarithm(double x);

/* Returns x^y of x > 0, or of x of any sign if y is whole and |y| < 2^31. The relative error grows with the
 * logarithm of the result, or with |y| if y is whole: about 2^-52 times that. */
double power(double x, double y);

/* Return the sine and cosine of an angle in radians; their error is absolute, and grows above |x| = 2^20 by
 * 2^-53 |x|. NaN for infinities. */
double sine(double x);
double cosine(double x);

#endif
