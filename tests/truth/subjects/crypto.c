/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* OpenSSL's hand-written assembly, which describes its frames by expressions (the CFA is the word at SP + n, plus 8). */
#include "subject.h"

#include <stddef.h>
#include <string.h>

const bool subject_whole = false;
const char subject_name[] = "crypto";

/* libcrypto's stable interface (OpenSSL 1.1 and 3), declared here so that its headers are not needed. */
unsigned char *SHA1(const unsigned char *data, size_t size, unsigned char *digest);
unsigned char *SHA256(const unsigned char *data, size_t size, unsigned char *digest);
unsigned char *SHA512(const unsigned char *data, size_t size, unsigned char *digest);
typedef struct evp_cipher_ctx_st EVP_CIPHER_CTX;
typedef struct evp_cipher_st EVP_CIPHER;
EVP_CIPHER_CTX *EVP_CIPHER_CTX_new(void);
void EVP_CIPHER_CTX_free(EVP_CIPHER_CTX *context);
const EVP_CIPHER *EVP_aes_128_gcm(void);
const EVP_CIPHER *EVP_chacha20_poly1305(void);
int EVP_EncryptInit_ex(EVP_CIPHER_CTX *context, const EVP_CIPHER *cipher, void *engine, const unsigned char *key,
                       const unsigned char *iv);
int EVP_EncryptUpdate(EVP_CIPHER_CTX *context, unsigned char *out, int *length, const unsigned char *in, int size);
typedef struct bignum_st BIGNUM;
typedef struct bignum_ctx BN_CTX;
BIGNUM *BN_bin2bn(const unsigned char *bytes, int size, BIGNUM *number);
BN_CTX *BN_CTX_new(void);
void BN_CTX_free(BN_CTX *context);
void BN_free(BIGNUM *number);
int BN_mod_exp(BIGNUM *result, const BIGNUM *base, const BIGNUM *power, const BIGNUM *modulus, BN_CTX *context);

static unsigned char text[900], out[1100];

static int encrypt(const EVP_CIPHER *cipher) {
  static const unsigned char key[32] = "thirty-two bytes of a test's key";
  EVP_CIPHER_CTX *context = EVP_CIPHER_CTX_new();
  int length = 0;
  bool good = context && EVP_EncryptInit_ex(context, cipher, NULL, key, key) == 1 &&
              EVP_EncryptUpdate(context, out, &length, text, sizeof(text)) == 1 && length == (int)sizeof(text);
  EVP_CIPHER_CTX_free(context);
  return good ? 0 : 1;
}

static int power(void) {
  memset(text, 0xa5, 128);
  text[127] |= 1;
  BN_CTX *context = BN_CTX_new();
  BIGNUM *modulus = BN_bin2bn(text, 128, NULL), *base = BN_bin2bn(text + 3, 100, NULL);
  BIGNUM *exponent = BN_bin2bn(text, 2, NULL), *result = BN_bin2bn(text, 1, NULL);
  bool good = context && modulus && base && exponent && result && BN_mod_exp(result, base, exponent, modulus, context) == 1;
  BN_free(modulus);
  BN_free(base);
  BN_free(exponent);
  BN_free(result);
  BN_CTX_free(context);
  return good ? 0 : 1;
}

/* The library's own initialization is a few million instructions. */
void subject_prepare(void) { subject_run(); }

int subject_run(void) {
  unsigned char digest[64];
  int bad = !SHA1(text, 400, digest) + !SHA256(text, 400, digest) + !SHA512(text, 400, digest);
  return bad + encrypt(EVP_aes_128_gcm()) + encrypt(EVP_chacha20_poly1305()) + power();
}
