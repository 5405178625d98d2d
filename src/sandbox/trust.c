#include "sandbox/trust.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include "base/buf.h"
#include "base/fd.h"
#include "base/sha1.h"

#define PEM_MAX (16 * 1024)
#define BUNDLE_MAX ((size_t)4 * 1024 * 1024)
#define FILE_NAME "ssl/certs/atoll-egress-ca.pem"
#define JAVA_STORE "ssl/certs/java/cacerts"

static int fail(struct atoll_error *err, int r, const char *path)
{
    return r < 0 ? atoll_fail_errno(err, -r, "write etc/%s of the host template", path) : 0;
}

/* Replaces the file, or makes it. */
static int write_file(int etc_fd, const char *path, const void *bytes, size_t n)
{
    ATOLL_AUTOCLOSE int fd = ATOLL_NO_FD;

    if (unlinkat(etc_fd, path, 0) < 0 && errno != ENOENT)
        return -errno;
    fd = openat(etc_fd, path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    return fd < 0 ? -errno : atoll_fd_write_all(fd, bytes, n);
}

static int read_file(int etc_fd, const char *path, struct atoll_buf *out)
{
    ATOLL_AUTOCLOSE int fd = openat(etc_fd, path, O_RDONLY | O_CLOEXEC);
    uint8_t *tail;
    ssize_t n = fd < 0 ? -errno : 1;
    int r = 0;

    while (n > 0 && (r = atoll_buf_reserve(out, 64 * 1024, &tail)) == 0) {
        n = read(fd, tail, 64 * 1024);
        if (n > 0)
            atoll_buf_commit(out, (size_t)n);
    }
    return r < 0 ? r : n < 0 ? (fd < 0 ? (int)n : -errno) : 0;
}

static X509 *parse(const char *pem, size_t n)
{
    BIO *bio = BIO_new_mem_buf(pem, (int)n);
    X509 *cert = bio ? PEM_read_bio_X509(bio, NULL, NULL, NULL) : NULL;

    BIO_free(bio);
    ERR_clear_error();
    return cert;
}

/* OpenSSL finds a certificate of a directory by the hash of its subject. */
static int add_link(int etc_fd, X509 *cert)
{
    char path[64];

    (void)snprintf(path, sizeof(path), "ssl/certs/%08lx.0",
                   X509_NAME_hash_ex(X509_get_subject_name(cert), NULL, NULL, NULL));
    return symlinkat(strrchr(FILE_NAME, '/') + 1, etc_fd, path) < 0 && errno != EEXIST ? -errno : 0;
}

/* A key store of Java (JKS, version 2): big-endian numbers, texts with a length of two bytes, and at the end
 * a digest of all that with a password known to everyone. */

static int put_number(struct atoll_buf *out, uint64_t value, size_t bytes)
{
    uint8_t raw[8];

    for (size_t i = 0; i < bytes; i++)
        raw[i] = (uint8_t)(value >> 8 * (bytes - 1 - i));
    return atoll_buf_append(out, raw, bytes);
}

static int put_text(struct atoll_buf *out, const char *text)
{
    int r = put_number(out, strlen(text), 2);
    return r < 0 ? r : atoll_buf_appends(out, text);
}

static int put_cert(struct atoll_buf *out, X509 *cert, size_t number)
{
    uint8_t *der = NULL;
    int n = i2d_X509(cert, &der), r = n > 0 ? 0 : -EINVAL;
    char alias[24];

    (void)snprintf(alias, sizeof(alias), "ca%zu", number);
    if (r == 0)
        r = put_number(out, 2, 4); /* a trusted certificate */
    if (r == 0)
        r = put_text(out, alias);
    if (r == 0)
        r = put_number(out, 0, 8); /* time */
    if (r == 0)
        r = put_text(out, "X.509");
    if (r == 0)
        r = put_number(out, (uint64_t)n, 4);
    if (r == 0)
        r = atoll_buf_append(out, der, (size_t)n);
    OPENSSL_free(der);
    return r;
}

static int put_digest(struct atoll_buf *out)
{
    static const char salt[] = "\0c\0h\0a\0n\0g\0e\0i\0tMighty Aphrodite";
    struct atoll_buf all;
    uint8_t digest[20];
    int r;

    atoll_buf_init(&all, BUNDLE_MAX + 64);
    r = atoll_buf_append(&all, salt, sizeof(salt) - 1);
    if (r == 0)
        r = atoll_buf_append(&all, atoll_buf_head(out), atoll_buf_size(out));
    if (r == 0) {
        atoll_sha1(atoll_buf_head(&all), atoll_buf_size(&all), digest);
        r = atoll_buf_append(out, digest, sizeof(digest));
    }
    atoll_buf_done(&all);
    return r;
}

/* All certificates of the bundle. */
static int make_java_store(const struct atoll_buf *bundle, struct atoll_buf *out)
{
    BIO *bio = BIO_new_mem_buf(atoll_buf_head(bundle), (int)atoll_buf_size(bundle));
    size_t count = 0;
    X509 *cert;
    int r = bio ? put_number(out, 0xfeedfeed, 4) : -ENOMEM;

    if (r == 0)
        r = put_number(out, 2, 4);
    if (r == 0)
        r = put_number(out, 0, 4); /* their number, below */
    while (r == 0 && (cert = PEM_read_bio_X509(bio, NULL, NULL, NULL))) {
        r = put_cert(out, cert, ++count);
        X509_free(cert);
    }
    for (size_t i = 0; r == 0 && i < 4; i++)
        out->data[out->off + 8 + i] = (uint8_t)(count >> 8 * (3 - i));
    BIO_free(bio);
    ERR_clear_error();
    return r < 0 ? r : put_digest(out);
}

static int add_to_java(int etc_fd, const struct atoll_buf *bundle)
{
    struct atoll_buf store;
    struct stat st;
    int r;

    if (fstatat(etc_fd, JAVA_STORE, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT ? 0 : -errno;
    atoll_buf_init(&store, BUNDLE_MAX);
    r = make_java_store(bundle, &store);
    if (r == 0)
        r = write_file(etc_fd, JAVA_STORE, atoll_buf_head(&store), atoll_buf_size(&store));
    atoll_buf_done(&store);
    return r;
}

static int add_to_bundle(int etc_fd, const char *pem, size_t n, struct atoll_error *err)
{
    struct atoll_buf bundle;
    int r;

    atoll_buf_init(&bundle, BUNDLE_MAX);
    r = read_file(etc_fd, ATOLL_TRUST_BUNDLE, &bundle);
    if (r == -ENOENT)
        r = 0; /* the host has none */
    if (r == 0 && atoll_buf_size(&bundle) > 0 && bundle.data[bundle.len - 1] != '\n')
        r = atoll_buf_appends(&bundle, "\n");
    if (r == 0)
        r = atoll_buf_append(&bundle, pem, n);
    if (r == 0)
        r = write_file(etc_fd, ATOLL_TRUST_BUNDLE, atoll_buf_head(&bundle),
                       atoll_buf_size(&bundle));
    r = fail(err, r, ATOLL_TRUST_BUNDLE);
    if (r == 0)
        r = fail(err, add_to_java(etc_fd, &bundle), JAVA_STORE);
    atoll_buf_done(&bundle);
    return r;
}

int atoll_trust_add(int state_fd, int etc_fd, struct atoll_error *err)
{
    char pem[PEM_MAX];
    ssize_t n = atoll_fd_read_file(state_fd, ATOLL_TRUST_CA, pem, sizeof(pem));
    X509 *cert;
    int r;

    if (n == -ENOENT)
        return 0;
    cert = n > 0 ? parse(pem, (size_t)n) : NULL;
    if (!cert)
        return atoll_fail(err, ATOLL_ERR_INTERNAL, EINVAL, ATOLL_TRUST_CA " is not a certificate");
    r = mkdirat(etc_fd, "ssl/certs", 0755) < 0 && errno != EEXIST ? -errno : 0;
    if (r == 0)
        r = write_file(etc_fd, FILE_NAME, pem, (size_t)n);
    if (r == 0)
        r = add_link(etc_fd, cert);
    X509_free(cert);
    r = fail(err, r, FILE_NAME);
    return r < 0 ? r : add_to_bundle(etc_fd, pem, (size_t)n, err);
}
