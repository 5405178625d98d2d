#include "net/tls_issuer.h"

#include <errno.h>
#include <string.h>
#include "base/list.h"
#include "base/map.h"
#include "net/tls_cert.h"
#include "net/tls_internal.h"

/* A certificate that was made. */
struct leaf {
    struct atoll_list node;
    X509 *cert;  /* owned */
    char name[]; /* key of the map */
};

struct atoll_tls_issuer {
    struct atoll_tls *tls;    /* owned; has the key and no certificate */
    X509 *authority;          /* owned */
    EVP_PKEY *authority_key;  /* owned */
    EVP_PKEY *key;            /* of every certificate; owned */
    struct atoll_map leaves;  /* of struct leaf, by name */
    struct atoll_list by_use; /* the one used last at the end */
};

static void leaf_free(struct atoll_tls_issuer *issuer, struct leaf *l)
{
    (void)atoll_map_remove(&issuer->leaves, l->name);
    atoll_list_remove(&l->node);
    X509_free(l->cert);
    free(l);
}

static struct leaf *leaf_new(struct atoll_tls_issuer *issuer, const char *name)
{
    size_t n = strlen(name) + 1;
    struct leaf *l = calloc(1, sizeof(*l) + n);

    if (!l)
        return NULL;
    memcpy(l->name, name, n);
    l->cert = atoll_tls_cert_issue(issuer->authority, issuer->authority_key, issuer->key, name);
    if (!l->cert || atoll_map_put(&issuer->leaves, l->name, l) < 0) {
        X509_free(l->cert);
        free(l);
        return NULL;
    }
    if (issuer->leaves.used > ATOLL_TLS_ISSUER_KEPT)
        leaf_free(issuer, ATOLL_CONTAINER_OF(issuer->by_use.next, struct leaf, node));
    return l;
}

static X509 *cert_for(struct atoll_tls_issuer *issuer, const char *name)
{
    struct leaf *l = atoll_map_get(&issuer->leaves, name);

    if (!l)
        l = leaf_new(issuer, name);
    if (!l)
        return NULL;
    atoll_list_remove(&l->node);
    atoll_list_push_back(&issuer->by_use, &l->node);
    return l->cert;
}

int atoll_tls_issuer_new(int state_fd, struct atoll_tls_issuer **ret_issuer,
                         struct atoll_error *err)
{
    struct atoll_tls_issuer *issuer = calloc(1, sizeof(*issuer));
    int r;

    if (!issuer)
        return atoll_fail_errno(err, ENOMEM, "issuer of certificates");
    atoll_map_init(&issuer->leaves);
    atoll_list_init(&issuer->by_use);
    r = atoll_tls_server_new(&issuer->tls, err);
    if (r == 0)
        r = atoll_tls_cert_egress(state_fd, &issuer->authority, &issuer->authority_key, err);
    if (r == 0) {
        issuer->key = EVP_EC_gen("P-256");
        if (!issuer->key)
            r = atoll_fail(err, ATOLL_ERR_INTERNAL, EIO, "OpenSSL cannot make a key");
    }
    if (r < 0)
        (void)atoll_tls_issuer_free(issuer);
    else
        *ret_issuer = issuer;
    return r;
}

struct atoll_tls_issuer *atoll_tls_issuer_free(struct atoll_tls_issuer *issuer)
{
    if (!issuer)
        return NULL;
    while (!atoll_list_empty(&issuer->by_use))
        leaf_free(issuer, ATOLL_CONTAINER_OF(issuer->by_use.next, struct leaf, node));
    atoll_map_done(&issuer->leaves);
    issuer->tls = atoll_tls_free(issuer->tls);
    X509_free(issuer->authority);
    EVP_PKEY_free(issuer->authority_key);
    EVP_PKEY_free(issuer->key);
    free(issuer);
    return NULL;
}

int atoll_tls_issuer_accept(struct atoll_tls_issuer *issuer, const char *name, int fd,
                            struct atoll_tls_conn **ret_conn)
{
    X509 *cert = cert_for(issuer, name);
    struct atoll_tls_conn *conn;
    int r;

    if (!cert)
        return -EINVAL;
    r = atoll_tls_accept(issuer->tls, fd, &conn);
    if (r < 0)
        return r;
    if (SSL_use_certificate(conn->ssl, cert) != 1 ||
        SSL_use_PrivateKey(conn->ssl, issuer->key) != 1) {
        atoll_tls_ops.free(conn);
        return -ENOMEM;
    }
    *ret_conn = conn;
    return 0;
}

size_t atoll_tls_issuer_kept(const struct atoll_tls_issuer *issuer)
{
    return issuer->leaves.used;
}
