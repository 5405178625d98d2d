#pragma once
#include <pthread.h>
#include "base/buf.h"
#include "image/challenge.h"
#include "image/registry.h"
#include "provider/remote/http.h"

/*
 * What the files of the registry client share.
 *   registry.c       configuration, where a registry is, manifests
 *   registry_ask.c   one request: login, redirects, tries
 *   registry_auth.c  tokens
 *   registry_error.c what refusals mean
 *   registry_get.c   blobs from registries
 *   registry_put.c   blobs and manifests to registries
 */
#define ATOLL_IMAGE_TOKENS_MAX 128
#define ATOLL_IMAGE_SCHEMES_MAX 64
#define ATOLL_IMAGE_URL_MAX 8192
#define ATOLL_IMAGE_TRIES 5 /* of a request without progress */
#define ATOLL_IMAGE_STALL_S 30

/* An Authorization header that a registry accepted. */
struct atoll_image_token {
    char *key;   /* owned; registry, scope and digest of the login */
    char *value; /* owned; "Bearer …" or "Basic …" */
    int64_t until_ms;
    uint64_t used; /* for the choice of what to forget */
};

struct atoll_image_registry {
    /* Connections are kept by host name: those that reached a private address with permission must not
     * serve a call without it. */
    struct atoll_remote_http *any, *public;
    struct atoll_remote_http *unverified; /* of insecure hosts */
    struct atoll_image_mirror *mirrors;   /* owned, with texts */
    size_t mirror_count;
    char **insecure; /* owned */
    size_t insecure_count;
    pthread_mutex_t lock;
    struct atoll_image_token tokens[ATOLL_IMAGE_TOKENS_MAX]; /* locked */
    uint64_t uses;                                           /* locked */
    struct atoll_image_scheme {
        char host[ATOLL_IMAGE_HOST_MAX];
        bool plain;
    } schemes[ATOLL_IMAGE_SCHEMES_MAX]; /* locked; what insecure hosts were found to speak */
    size_t scheme_next;
};

/* Where the repository of a reference can be found: the registry, or a mirror. */
struct atoll_image_place {
    char origin[ATOLL_IMAGE_HOST_MAX + 16];    /* "https://registry-1.docker.io" */
    char host[ATOLL_IMAGE_HOST_MAX];           /* "registry-1.docker.io", with its port */
    char repository[2 * ATOLL_IMAGE_PATH_MAX]; /* "library/alpine" */
    bool mirror;
    bool may_be_plain; /* http is tried if https fails */
};

/* What is known of an answer besides its body. */
struct atoll_image_head {
    long status;
    char type[ATOLL_IMAGE_MEDIA_MAX];
    char digest[ATOLL_IMAGE_DIGEST_MAX]; /* "" if it is not one */
    char location[ATOLL_IMAGE_URL_MAX];
    char range[64], content_range[96];
    char challenge[4096];
};

/* The bytes [at, end) of a file as a body. */
struct atoll_image_part {
    int fd;
    uint64_t at, end;
    const struct atoll_image_descriptor *blob; /* that it is of */
};
#define ATOLL_IMAGE_REPORT_MS 100 /* between two reports of progress */

/* One request to a place. Borrowed until it has ended. */
struct atoll_image_ask {
    const struct atoll_image_place *place;
    const struct atoll_image_reference *ref;
    const struct atoll_image_call *call;
    bool push;        /* the token must allow it */
    const char *from; /* another repository that the token must allow to pull; NULL */
    const char *method;
    const char *url; /* absolute */
    const char *type, *accept;
    char extra[128]; /* one more header; "" */
    const void *body;
    size_t body_len;
    const struct atoll_image_part *part; /* or this as body */
    bool once;                           /* no further tries: the caller has its own */
    int (*sink)(void *arg, const void *bytes, size_t n); /* gets the body of 2xx; < 0 ends it */
    void *sink_arg;
    struct atoll_image_head *head; /* filled while the answer arrives */
    bool own;                      /* the answer is of the registry, not of a redirect elsewhere */
    bool sent_auth;                /* the answer is to a request with an Authorization header */
};

/* Whether the call has no login. */
bool atoll_image_is_anonymous(const struct atoll_image_call *call);

/* Any status below 400 is a success; *ret_body has the body unless there is a sink. The caller clears
 * it, also on failure. */
int atoll_image_ask(struct atoll_image_registry *r, struct atoll_image_ask *ask,
                    struct atoll_buf *ret_body, struct atoll_error *err) ATOLL_MUST_CHECK;
/* Waits before try number `tries` + 1; false: the call ended. */
bool atoll_image_wait(const struct atoll_image_call *call, unsigned tries, uint32_t retry_after_s);
/* Whether another try may mend it. */
bool atoll_image_is_passing(const struct atoll_image_call *call, const struct atoll_error *err);

/* The Authorization header of a request so far; NULL: none is known. The caller frees it. */
char *atoll_image_auth_known(struct atoll_image_registry *r, const struct atoll_image_ask *ask);
/* Gets one after a 401. 1: nothing can be sent (anonymous, and no token server). */
int atoll_image_auth_get(struct atoll_image_registry *r, const struct atoll_image_ask *ask,
                         const char *challenge, char **ret,
                         struct atoll_error *err) ATOLL_MUST_CHECK;
void atoll_image_auth_forget(struct atoll_image_registry *r, const struct atoll_image_ask *ask);
void atoll_image_auth_done(struct atoll_image_registry *r);

/* The error of a refusal. */
int atoll_image_refused(const struct atoll_image_ask *ask, long status, const char *body, size_t n,
                        uint32_t retry_after_s, struct atoll_error *err);
/* Sets the advice of an error about logins. */
void atoll_image_advise_login(const struct atoll_image_ask *ask, struct atoll_error *err);

/* The client for a URL of the place, or one that it led to: https, or http of a host that may be asked
 * without TLS. Insecure hosts and mirrors of the operator are exempt from the check of addresses and certificates
 * only if the place is such a host too. */
int atoll_image_client_for(struct atoll_image_registry *r, const struct atoll_image_place *place,
                           const char *url, const struct atoll_image_call *call,
                           struct atoll_remote_http **ret,
                           struct atoll_error *err) ATOLL_MUST_CHECK;

/* The parts of a URL; malformed: false. authority: host with its port, if the URL has one. */
struct atoll_image_url {
    char scheme[8], host[ATOLL_IMAGE_HOST_MAX], authority[ATOLL_IMAGE_HOST_MAX + 8], path[512];
};
bool atoll_image_url_split(const char *url, struct atoll_image_url *ret);
/* Resolves a location against the URL of the request; false: malformed or too long. */
bool atoll_image_url_join(const char *base, const char *location, char out[ATOLL_IMAGE_URL_MAX]);

/* Runs fn for the mirrors of ref's registry and then for itself, until it succeeds, or for the registry
 * alone with push. The error is that of the registry. */
typedef int atoll_image_place_fn(struct atoll_image_registry *r, struct atoll_image_ask *ask,
                                 void *arg, struct atoll_error *err);
int atoll_image_each_place(struct atoll_image_registry *r, const struct atoll_image_reference *ref,
                           const struct atoll_image_call *call, bool push, atoll_image_place_fn *fn,
                           void *arg, struct atoll_error *err) ATOLL_MUST_CHECK;
