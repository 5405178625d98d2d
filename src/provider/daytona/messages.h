#pragma once
#include <jansson.h>
#include "base/buf.h"
#include "provider/remote/provider.h"

/*
 * Messages to and from a Daytona service. Answers are hostile until they are checked. Pure.
 */
#define ATOLL_DAYTONA_URL_MAX 300

/* A sandbox as the service describes it, and its relay. */
struct atoll_daytona_remote {
    struct atoll_remote_sandbox of;
    bool gone;                               /* destroyed, or being destroyed */
    char toolbox[ATOLL_DAYTONA_URL_MAX + 1]; /* "": not said */
    char preview[ATOLL_DAYTONA_URL_MAX + 1]; /* host of its ports with "{port}"; "": not public */
    struct atoll_remote_relay relay;         /* port 0: not known yet */
};

/* Reads the answer to create or get, or one element of a list. UNAVAILABLE: not such an answer. */
int atoll_daytona_read_remote(const json_t *answer, struct atoll_daytona_remote *ret,
                              struct atoll_error *err) ATOLL_MUST_CHECK;
/* The items and the next cursor in the answer to a list, of either generation. */
json_t *atoll_daytona_read_list(json_t *answer, char *ret_cursor, size_t cap);
/* "{port}-ID.DOMAIN" from the URL of a preview of this port; false: not such a URL. */
bool atoll_daytona_read_preview(const char *url, unsigned port, char *out, size_t cap);

/* The meaning of its refusals. */
extern const struct atoll_remote_service atoll_daytona_service;

/* network.c: adds a policy in its canonical form to the body of a create; NULL: everything is allowed.
 * UNIMPLEMENTED: the service cannot enforce it; the text says what. */
int atoll_daytona_network(const char *policy_json, json_t *body,
                          struct atoll_error *err) ATOLL_MUST_CHECK;

/* The form of an upload of one file, and its type. */
#define ATOLL_DAYTONA_BOUNDARY "atoll-9f2c51d07be84a36"
int atoll_daytona_form(struct atoll_buf *out, const char *path, const void *bytes,
                       size_t n) ATOLL_MUST_CHECK;
