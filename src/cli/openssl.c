/*
 * OpenSSL, loaded when it is first used. Most runs of `atoll` talk to a unix socket, and loading its
 * libraries takes longer than the rest of the program's start. These functions are what net/tls_client.c and
 * net/tls_conn.c call; each finds the function of the same name in the library. A function that is missing
 * here makes the linker load the libraries at start again, which test_cli.py notices.
 */
#include <dlfcn.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdlib.h>
#include "cli/cli.h"
#include "cli/print.h"

#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)
#define LIBRARY "libssl.so." TEXT(OPENSSL_SHLIB_VERSION)

/* libssl brings libcrypto; dlsym() finds the functions of both. Without them there is no TLS to go on with. */
static void *find(const char *name)
{
    void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    void *function = library ? dlsym(library, name) : NULL;

    if (!function) {
        atoll_cli_say("https:// needs OpenSSL: %s", dlerror());
        exit(ATOLL_CLI_BROKEN);
    }
    return function;
}

#define LAZY(type, name, parameters, arguments)  \
    type name parameters                         \
    {                                            \
        static __typeof__(&(name)) function;     \
        if (!function)                           \
            *(void **)(&function) = find(#name); \
        return function arguments;               \
    }

/* clang-format off */
LAZY(void, BIO_clear_flags, (BIO *b, int flags), (b, flags))
LAZY(void *, BIO_get_data, (BIO *b), (b))
LAZY(int, BIO_get_new_index, (void), ())
LAZY(void, BIO_meth_free, (BIO_METHOD *m), (m))
LAZY(BIO_METHOD *, BIO_meth_new, (int type, const char *name), (type, name))
LAZY(int, BIO_meth_set_ctrl, (BIO_METHOD *m, long (*fn)(BIO *, int, long, void *)), (m, fn))
LAZY(int, BIO_meth_set_read, (BIO_METHOD *m, int (*fn)(BIO *, char *, int)), (m, fn))
LAZY(int, BIO_meth_set_write, (BIO_METHOD *m, int (*fn)(BIO *, const char *, int)), (m, fn))
LAZY(BIO *, BIO_new, (const BIO_METHOD *m), (m))
LAZY(void, BIO_set_data, (BIO *b, void *p), (b, p))
LAZY(void, BIO_set_flags, (BIO *b, int flags), (b, flags))
LAZY(void, BIO_set_init, (BIO *b, int init), (b, init))
LAZY(void, ERR_clear_error, (void), ())
LAZY(unsigned long, ERR_peek_error, (void), ())
LAZY(long, SSL_CTX_ctrl, (SSL_CTX *c, int cmd, long n, void *p), (c, cmd, n, p))
LAZY(void, SSL_CTX_free, (SSL_CTX *c), (c))
LAZY(X509_VERIFY_PARAM *, SSL_CTX_get0_param, (SSL_CTX *c), (c))
LAZY(int, SSL_CTX_load_verify_locations, (SSL_CTX *c, const char *file, const char *path), (c, file, path))
LAZY(SSL_CTX *, SSL_CTX_new, (const SSL_METHOD *m), (m))
LAZY(int, SSL_CTX_set_alpn_protos, (SSL_CTX *c, const unsigned char *p, unsigned n), (c, p, n))
LAZY(int, SSL_CTX_set_cipher_list, (SSL_CTX *c, const char *list), (c, list))
LAZY(void, SSL_CTX_set_default_read_buffer_len, (SSL_CTX *c, size_t n), (c, n))
LAZY(int, SSL_CTX_set_default_verify_paths, (SSL_CTX *c), (c))
LAZY(uint64_t, SSL_CTX_set_options, (SSL_CTX *c, uint64_t options), (c, options))
LAZY(void, SSL_CTX_set_verify, (SSL_CTX *c, int mode, SSL_verify_cb fn), (c, mode, fn))
LAZY(long, SSL_ctrl, (SSL *s, int cmd, long n, void *p), (s, cmd, n, p))
LAZY(int, SSL_do_handshake, (SSL *s), (s))
LAZY(void, SSL_free, (SSL *s), (s))
LAZY(void, SSL_get0_alpn_selected, (const SSL *s, const unsigned char **p, unsigned *n), (s, p, n))
LAZY(X509_VERIFY_PARAM *, SSL_get0_param, (SSL *s), (s))
LAZY(int, SSL_get_error, (const SSL *s, int r), (s, r))
LAZY(int, SSL_get_verify_mode, (const SSL *s), (s))
LAZY(long, SSL_get_verify_result, (const SSL *s), (s))
LAZY(int, SSL_has_pending, (const SSL *s), (s))
LAZY(int, SSL_is_init_finished, (const SSL *s), (s))
LAZY(SSL *, SSL_new, (SSL_CTX *c), (c))
LAZY(int, SSL_read_ex, (SSL *s, void *p, size_t n, size_t *got), (s, p, n, got))
LAZY(int, SSL_set1_host, (SSL *s, const char *host), (s, host))
LAZY(void, SSL_set_bio, (SSL *s, BIO *in, BIO *out), (s, in, out))
LAZY(void, SSL_set_connect_state, (SSL *s), (s))
LAZY(int, SSL_shutdown, (SSL *s), (s))
LAZY(int, SSL_write_ex, (SSL *s, const void *p, size_t n, size_t *sent), (s, p, n, sent))
LAZY(const SSL_METHOD *, TLS_client_method, (void), ())
LAZY(int, X509_VERIFY_PARAM_set1_ip_asc, (X509_VERIFY_PARAM *v, const char *ip), (v, ip))
LAZY(int, X509_VERIFY_PARAM_set_flags, (X509_VERIFY_PARAM *v, unsigned long flags), (v, flags))
LAZY(const char *, X509_verify_cert_error_string, (long n), (n))
/* clang-format on */
