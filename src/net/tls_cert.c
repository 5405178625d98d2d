/*
 * Files are written to a temporary name and renamed, the key first. After a crash between the two, key
 * and certificate do not match, and both are generated again.
 */
#include "net/tls_cert.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include "base/fd.h"

#define YEARS_10 (3653L * 24 * 3600)
#define PEM_MAX (64 * 1024)

static int fail_openssl(struct atoll_error *err, const char *what)
{
    const char *reason = ERR_reason_error_string(ERR_peek_last_error());
    int r = atoll_fail(err, ATOLL_ERR_INTERNAL, EIO, "%s: %s", what, reason ? reason : "OpenSSL");

    ERR_clear_error();
    return r;
}

/* Refuses encrypted keys: by default OpenSSL would ask for the password on the terminal. */
static int no_password(char *buf, int size, int for_writing, void *arg)
{
    (void)buf;
    (void)size;
    (void)for_writing;
    (void)arg;
    return -1;
}

/* Given files. */

static int refuse_file(struct atoll_error *err, const char *what, const char *file)
{
    unsigned long code = ERR_peek_error();
    const char *reason = ERR_SYSTEM_ERROR(code) ? strerror((int)ERR_GET_REASON(code))
                                                : ERR_reason_error_string(code);
    int r =
        atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "the TLS %s %.200s cannot be used: %s",
                   what, file, reason ? reason : "it is not a PEM file");
    ERR_clear_error();
    return r;
}

int atoll_tls_cert_given(SSL_CTX *ctx, const char *cert_file, const char *key_file,
                         struct atoll_error *err)
{
    ERR_clear_error();
    SSL_CTX_set_default_passwd_cb(ctx, no_password);
    if (SSL_CTX_use_certificate_chain_file(ctx, cert_file) != 1)
        return refuse_file(err, "certificate", cert_file);
    if (SSL_CTX_use_PrivateKey_file(ctx, key_file, SSL_FILETYPE_PEM) != 1 ||
        SSL_CTX_check_private_key(ctx) != 1)
        return refuse_file(err, "key", key_file);
    return 0;
}

/* Making one. */

/* "DNS:localhost,…" for the subject alternative name. */
static void list_names(char *out, size_t cap)
{
    char host[256] = "";
    bool usable;

    (void)gethostname(host, sizeof(host) - 1);
    /* Only characters of host names: a comma would begin another name in the list. */
    usable = *host && strspn(host, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                   "0123456789-.") == strlen(host);
    (void)snprintf(out, cap, "DNS:localhost,DNS:*.localhost,IP:127.0.0.1,IP:::1%s%s",
                   usable && strcmp(host, "localhost") != 0 ? ",DNS:" : "", usable ? host : "");
}

static int add_extensions(X509 *cert)
{
    char names[400];
    const struct {
        int nid;
        const char *value;
    } extensions[] = {
        {NID_basic_constraints, "critical,CA:FALSE"},
        {NID_key_usage, "critical,digitalSignature"},
        {NID_ext_key_usage, "serverAuth"},
        {NID_subject_alt_name, names},
    };

    list_names(names, sizeof(names));
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(extensions); i++) {
        X509_EXTENSION *e = X509V3_EXT_conf_nid(NULL, NULL, extensions[i].nid, extensions[i].value);
        int added = e ? X509_add_ext(cert, e, -1) : 0;
        X509_EXTENSION_free(e);
        if (!added)
            return -EIO;
    }
    return 0;
}

static int set_serial(X509 *cert)
{
    uint8_t raw[16];
    BIGNUM *number;
    bool set;

    if (RAND_bytes(raw, sizeof(raw)) != 1)
        return -EIO;
    raw[0] = (raw[0] & 0x3f) | 0x40; /* positive, and no leading zero byte */
    number = BN_bin2bn(raw, sizeof(raw), NULL);
    set = number && BN_to_ASN1_INTEGER(number, X509_get_serialNumber(cert));
    BN_free(number);
    return set ? 0 : -EIO;
}

static X509 *make_cert(EVP_PKEY *key)
{
    X509 *cert = X509_new();
    X509_NAME *name = cert ? X509_get_subject_name(cert) : NULL;

    /* Valid since one hour ago, for clients whose clock is slow. */
    if (name && X509_set_version(cert, X509_VERSION_3) && set_serial(cert) == 0 &&
        X509_gmtime_adj(X509_getm_notBefore(cert), -3600) &&
        X509_gmtime_adj(X509_getm_notAfter(cert), YEARS_10) &&
        X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, (const unsigned char *)"Atoll", -1, -1,
                                   0) &&
        X509_set_issuer_name(cert, name) && X509_set_pubkey(cert, key) &&
        add_extensions(cert) == 0 && X509_sign(cert, key, EVP_sha256()) > 0)
        return cert;
    X509_free(cert);
    return NULL;
}

/* Keeping it. */

static int write_pem(int dir_fd, const char *name, BIO *pem, struct atoll_error *err)
{
    ATOLL_AUTOCLOSE int fd = ATOLL_NO_FD;
    char temporary[32], *bytes;
    long n = BIO_get_mem_data(pem, &bytes);
    int r = 0;

    (void)snprintf(temporary, sizeof(temporary), "%s.new", name);
    if (unlinkat(dir_fd, temporary, 0) < 0 && errno != ENOENT)
        return atoll_fail_errno(err, errno, "remove tls/%s", temporary);
    fd = openat(dir_fd, temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return atoll_fail_errno(err, errno, "create tls/%s", temporary);
    r = atoll_fd_write_all(fd, bytes, (size_t)n);
    if (r == 0 &&
        (fchmod(fd, 0600) < 0 || fsync(fd) < 0 || renameat(dir_fd, temporary, dir_fd, name) < 0))
        r = -errno;
    return r < 0 ? atoll_fail_errno(err, -r, "write tls/%s", name) : 0;
}

static int save(int dir_fd, EVP_PKEY *key, X509 *cert, struct atoll_error *err)
{
    BIO *key_pem = BIO_new(BIO_s_secmem()), *cert_pem = BIO_new(BIO_s_mem());
    int r;

    if (!key_pem || !cert_pem || !PEM_write_bio_X509(cert_pem, cert) ||
        !PEM_write_bio_PrivateKey(key_pem, key, NULL, NULL, 0, NULL, NULL))
        r = fail_openssl(err, "write a TLS certificate");
    else
        r = write_pem(dir_fd, "key.pem", key_pem, err);
    if (r == 0)
        r = write_pem(dir_fd, "cert.pem", cert_pem, err);
    BIO_free(key_pem);
    BIO_free(cert_pem);
    return r;
}

/* Reading it back. */

static BIO *open_pem(int dir_fd, const char *name)
{
    ATOLL_AUTOCLOSE int fd = openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    char text[PEM_MAX];
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text));
    BIO *pem = n > 0 ? BIO_new(BIO_s_mem()) : NULL;

    if (pem && BIO_write(pem, text, (int)n) != (int)n) {
        BIO_free(pem);
        pem = NULL;
    }
    OPENSSL_cleanse(text, sizeof(text));
    return pem;
}

/* Loads key and certificate; false if they are missing, expired or do not match. */
static bool load(SSL_CTX *ctx, int dir_fd)
{
    BIO *key_pem = open_pem(dir_fd, "key.pem"), *cert_pem = open_pem(dir_fd, "cert.pem");
    EVP_PKEY *key = key_pem ? PEM_read_bio_PrivateKey(key_pem, NULL, no_password, NULL) : NULL;
    X509 *cert = cert_pem ? PEM_read_bio_X509(cert_pem, NULL, no_password, NULL) : NULL;
    bool good = key && cert && X509_cmp_current_time(X509_get0_notAfter(cert)) > 0 &&
                X509_check_private_key(cert, key) == 1 && SSL_CTX_use_certificate(ctx, cert) == 1 &&
                SSL_CTX_use_PrivateKey(ctx, key) == 1;

    EVP_PKEY_free(key);
    X509_free(cert);
    BIO_free(key_pem);
    BIO_free(cert_pem);
    ERR_clear_error();
    return good;
}

static int make(int dir_fd, struct atoll_error *err)
{
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *cert = key ? make_cert(key) : NULL;
    int r = cert ? save(dir_fd, key, cert, err) : fail_openssl(err, "make a TLS certificate");

    X509_free(cert);
    EVP_PKEY_free(key);
    return r;
}

int atoll_tls_cert_own(SSL_CTX *ctx, int state_fd, struct atoll_error *err)
{
    ATOLL_AUTOCLOSE int dir_fd = ATOLL_NO_FD;
    int r;

    if (mkdirat(state_fd, "tls", 0700) < 0 && errno != EEXIST)
        return atoll_fail_errno(err, errno, "create tls in the state directory");
    dir_fd = openat(state_fd, "tls", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (dir_fd < 0)
        return atoll_fail_errno(err, errno, "open tls in the state directory");
    if (load(ctx, dir_fd))
        return 0;
    r = make(dir_fd, err);
    if (r == 0 && !load(ctx, dir_fd))
        r = atoll_fail(err, ATOLL_ERR_INTERNAL, EIO, "the new TLS certificate is not usable");
    return r;
}
