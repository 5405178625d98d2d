/*
 * Files are written to a temporary name and renamed, a key before its certificate. After a crash
 * between the two, key and certificate do not match, and both are generated again.
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
#include <time.h>
#include "base/fd.h"

#define DAY_S (24L * 3600)
#define AUTHORITY_DAYS 3653 /* ten years */
#define SERVER_DAYS 825     /* some clients refuse certificates that are valid for longer */
#define RENEW_DAYS 90       /* so many days before it expires */
#define PEM_MAX (64 * 1024)

/* A certificate and its key. */
struct pair {
    EVP_PKEY *key;
    X509 *cert;
};

static void pair_done(struct pair *p)
{
    EVP_PKEY_free(p->key);
    X509_free(p->cert);
    *p = (struct pair){0};
}

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

/* Only characters of host names: a comma would begin another name in the list. */
static bool is_name(const char *name)
{
    return *name && strcmp(name, "localhost") != 0 &&
           strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._") ==
               strlen(name);
}

/* Walks a list of names that are separated by commas: false at the end, and for a name of other
 * characters. A name may be "*.NAME". */
static bool next_name(const char **list, char out[256])
{
    size_t n;

    *list += strspn(*list, ", ");
    n = strcspn(*list, ", ");
    if (n == 0 || n >= 256)
        return false;
    (void)snprintf(out, 256, "%.*s", (int)n, *list);
    *list += n;
    return is_name(strncmp(out, "*.", 2) == 0 ? out + 2 : out);
}

/* "DNS:localhost,…" for the subject alternative name. */
static void list_names(const char *domain, const char *more, char *out, size_t cap)
{
    char host[256] = "", name[256];
    size_t len;

    (void)gethostname(host, sizeof(host) - 1);
    len = (size_t)snprintf(out, cap, "DNS:localhost,DNS:*.localhost,IP:127.0.0.1,IP:::1%s%s",
                           is_name(host) ? ",DNS:" : "", is_name(host) ? host : "");
    if (is_name(domain) && len < cap)
        len += (size_t)snprintf(out + len, cap - len, ",DNS:%s,DNS:*.%s", domain, domain);
    while (len < cap && next_name(&more, name))
        len += (size_t)snprintf(out + len, cap - len, ",DNS:%s", name);
}

static int add_extensions(X509 *cert, X509 *issuer, const char *names)
{
    const struct {
        int nid;
        const char *value;
    } extensions[] = {
        {NID_basic_constraints, names ? "critical,CA:FALSE" : "critical,CA:TRUE,pathlen:0"},
        {NID_key_usage, names ? "critical,digitalSignature" : "critical,keyCertSign,cRLSign"},
        {NID_subject_key_identifier, "hash"},
        {NID_authority_key_identifier, names ? "keyid:always" : NULL},
        {NID_ext_key_usage, names ? "serverAuth" : NULL},
        {NID_subject_alt_name, names},
    };
    X509V3_CTX context;

    X509V3_set_ctx(&context, issuer, cert, NULL, NULL, 0);
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(extensions); i++) {
        X509_EXTENSION *e;
        int added;

        if (!extensions[i].value)
            continue;
        e = X509V3_EXT_conf_nid(NULL, &context, extensions[i].nid, extensions[i].value);
        added = e ? X509_add_ext(cert, e, -1) : 0;
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

/* issuer NULL: a certificate authority, signed by itself. names: of a server. */
static X509 *make_cert(EVP_PKEY *key, const struct pair *issuer, const char *title,
                       const char *names)
{
    X509 *cert = X509_new(), *signer = issuer ? issuer->cert : cert;
    X509_NAME *name = cert ? X509_get_subject_name(cert) : NULL;

    /* Valid since one hour ago, for clients whose clock is slow. */
    if (name && X509_set_version(cert, X509_VERSION_3) && set_serial(cert) == 0 &&
        X509_gmtime_adj(X509_getm_notBefore(cert), -3600) &&
        X509_gmtime_adj(X509_getm_notAfter(cert), (names ? SERVER_DAYS : AUTHORITY_DAYS) * DAY_S) &&
        X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, (const unsigned char *)title, -1, -1,
                                   0) &&
        X509_set_issuer_name(cert, X509_get_subject_name(signer)) && X509_set_pubkey(cert, key) &&
        add_extensions(cert, signer, names) == 0 &&
        X509_sign(cert, issuer ? issuer->key : key, EVP_sha256()) > 0)
        return cert;
    X509_free(cert);
    return NULL;
}

/* Keeping it. */

static int write_pem(int dir_fd, const char *name, BIO *pem, struct atoll_error *err)
{
    char *bytes;
    long n = BIO_get_mem_data(pem, &bytes);
    int r = atoll_fd_replace_file(dir_fd, name, bytes, (size_t)n);

    return r < 0 ? atoll_fail_errno(err, -r, "write %s", name) : 0;
}

/* Files of a pair, and the name in the certificate. */
struct files {
    const char *key, *cert, *title;
};
static const struct files authority_files = {"ca-key.pem", "ca.pem", "Atoll local CA"};
static const struct files server_files = {"key.pem", "cert.pem", "Atoll"};
static const struct files egress_files = {"egress-ca-key.pem", "egress-ca.pem", "Atoll egress CA"};

/* chain: a certificate that follows the first one in the file, or NULL. */
static int save(int dir_fd, const struct files *files, const struct pair *p, X509 *chain,
                struct atoll_error *err)
{
    BIO *key_pem = BIO_new(BIO_s_secmem()), *cert_pem = BIO_new(BIO_s_mem());
    int r;

    if (!key_pem || !cert_pem || !PEM_write_bio_X509(cert_pem, p->cert) ||
        (chain && !PEM_write_bio_X509(cert_pem, chain)) ||
        !PEM_write_bio_PrivateKey(key_pem, p->key, NULL, NULL, 0, NULL, NULL))
        r = fail_openssl(err, "write a TLS certificate");
    else
        r = write_pem(dir_fd, files->key, key_pem, err);
    if (r == 0)
        r = write_pem(dir_fd, files->cert, cert_pem, err);
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

/* False if a file is missing, the two do not match, or the certificate expires soon. */
static bool load(int dir_fd, const struct files *files, struct pair *ret)
{
    BIO *key_pem = open_pem(dir_fd, files->key), *cert_pem = open_pem(dir_fd, files->cert);
    time_t soon = time(NULL) + RENEW_DAYS * DAY_S;
    bool good;

    ret->key = key_pem ? PEM_read_bio_PrivateKey(key_pem, NULL, no_password, NULL) : NULL;
    ret->cert = cert_pem ? PEM_read_bio_X509(cert_pem, NULL, no_password, NULL) : NULL;
    good = ret->key && ret->cert && X509_cmp_time(X509_get0_notAfter(ret->cert), &soon) > 0 &&
           X509_check_private_key(ret->cert, ret->key) == 1;
    BIO_free(key_pem);
    BIO_free(cert_pem);
    ERR_clear_error();
    if (!good)
        pair_done(ret);
    return good;
}

static int make(int dir_fd, const struct files *files, const struct pair *issuer, const char *names,
                struct pair *ret, struct atoll_error *err)
{
    int r;

    ret->key = EVP_EC_gen("P-256");
    ret->cert = ret->key ? make_cert(ret->key, issuer, files->title, names) : NULL;
    r = ret->cert ? save(dir_fd, files, ret, issuer ? issuer->cert : NULL, err)
                  : fail_openssl(err, "make a TLS certificate");
    if (r < 0)
        pair_done(ret);
    return r;
}

/* Whether the certificate was issued by the authority for these names. */
static bool fits(X509 *cert, X509 *authority, const char *domain, const char *more)
{
    char host[256] = "", name[256];

    while (next_name(&more, name)) {
        if (*name == '*')
            *name = 'x'; /* any name below */
        if (X509_check_host(cert, name, 0, 0, NULL) != 1)
            return false;
    }
    (void)gethostname(host, sizeof(host) - 1);
    return X509_verify(cert, X509_get0_pubkey(authority)) == 1 &&
           (!is_name(domain) || X509_check_host(cert, domain, 0, 0, NULL) == 1) &&
           (!is_name(host) || X509_check_host(cert, host, 0, 0, NULL) == 1);
}

static int own_pair(int dir_fd, const char *domain, const char *more, struct pair *ret,
                    struct atoll_error *err)
{
    struct pair authority = {0};
    char names[2048];
    int r = 0;

    if (!load(dir_fd, &authority_files, &authority))
        r = make(dir_fd, &authority_files, NULL, NULL, &authority, err);
    if (r == 0 && load(dir_fd, &server_files, ret) &&
        !fits(ret->cert, authority.cert, domain, more))
        pair_done(ret);
    if (r == 0 && !ret->cert) {
        list_names(domain, more, names, sizeof(names));
        r = make(dir_fd, &server_files, &authority, names, ret, err);
    }
    pair_done(&authority);
    return r;
}

int atoll_tls_cert_own(SSL_CTX *ctx, int state_fd, const char *domain, const char *more,
                       struct atoll_error *err)
{
    struct pair own = {0};
    ATOLL_AUTOCLOSE int dir_fd = ATOLL_NO_FD;
    int r;

    if (mkdirat(state_fd, "tls", 0700) < 0 && errno != EEXIST)
        return atoll_fail_errno(err, errno, "create tls in the state directory");
    dir_fd = openat(state_fd, "tls", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (dir_fd < 0)
        return atoll_fail_errno(err, errno, "open tls in the state directory");
    r = own_pair(dir_fd, domain, more, &own, err);
    if (r == 0 &&
        (SSL_CTX_use_certificate(ctx, own.cert) != 1 || SSL_CTX_use_PrivateKey(ctx, own.key) != 1))
        r = fail_openssl(err, "use the TLS certificate");
    pair_done(&own);
    return r;
}

int atoll_tls_cert_egress(int state_fd, X509 **ret_cert, EVP_PKEY **ret_key,
                          struct atoll_error *err)
{
    struct pair authority = {0};
    int r = 0;

    if (!load(state_fd, &egress_files, &authority))
        r = make(state_fd, &egress_files, NULL, NULL, &authority, err);
    if (r == 0) {
        *ret_cert = authority.cert;
        *ret_key = authority.key;
    }
    return r;
}

X509 *atoll_tls_cert_issue(X509 *authority, EVP_PKEY *authority_key, EVP_PKEY *key,
                           const char *name)
{
    const struct pair issuer = {authority_key, authority};
    char names[300];
    X509 *cert;

    if (!is_name(name) || snprintf(names, sizeof(names), "DNS:%s", name) >= (int)sizeof(names))
        return NULL;
    cert = make_cert(key, &issuer, server_files.title, names);
    ERR_clear_error();
    return cert;
}
