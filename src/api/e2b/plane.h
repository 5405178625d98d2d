#pragma once
#include "api/api_internal.h"
#include "api/e2b/e2b.h"
#include "api/kit/ports.h"
#include "base/map.h"

/*
 * The in-memory state of the sandbox plane, one per API. All of it may be lost at a restart: tags
 * of processes, polled watchers, and the ids recently created by this facade.
 */
#define ATOLL_PLANE_MADE_MAX 4096

/* A place in the log of a build, where its entry number `entries` begins. */
#define ATOLL_E2B_PLACES 64
struct atoll_e2b_place {
    char build_id[ATOLL_VERSION_ID_LEN + 1];
    uint64_t entries, offset;
};

struct atoll_e2b_plane {
    struct atoll_api *api;
    uint32_t max_hours;                               /* longest timeout; 0: unlimited */
    struct atoll_subscription *events;                /* owned */
    struct atoll_ports *ports;                        /* owned: servers inside sandboxes */
    struct atoll_map notes_by_sandbox, notes_by_exec; /* process_notes.c */
    struct atoll_list watchers;                       /* watchers.c */
    struct atoll_list requests;                       /* template_requests.c */
    struct atoll_e2b_place places[ATOLL_E2B_PLACES];  /* likewise */
    size_t place_next;                                /* the one to forget next */
    /* Ids of sandboxes created by this facade, including destroyed ones: their hosts are served
     * here. */
    char (*made)[ATOLL_ID_LEN + 1]; /* owned, a ring buffer */
    size_t made_count;
};

/* The plane of the API. */
struct atoll_e2b_plane *atoll_e2b_plane_of(const struct atoll_api *api);

/* Keeps the id of a sandbox that this facade made, before its client can ask for the host. */
void atoll_plane_remember(struct atoll_e2b_plane *plane, const struct atoll_sandbox *sandbox);

/* plane_answers.c: responses of the daemon instead of the sandbox; each ends the request. */

void atoll_plane_no_sandbox(struct atoll_http_request *req, const char *id);
void atoll_plane_no_port(struct atoll_http_request *req, const char *id, uint16_t port);
/* 400, 403 …: plain text, as E2B's proxy sends it. */
void atoll_plane_refuse(struct atoll_http_request *req, int status, const char *text);

/* ports.c: servers inside sandboxes. */

/* Forwards the request. mask_host "": Host is unchanged; by_header: the request was not
 * addressed by host. */
void atoll_plane_forward(struct atoll_e2b_plane *plane, struct atoll_http_request *req,
                         const char *id, uint16_t port, const char *mask_host, bool by_header);

/* signature.c: signed file URLs. */

#define ATOLL_E2B_SIGNATURE_MAX 64
struct atoll_e2b_signed {
    const char *path, *operation, *user, *expiration; /* "": not set */
};
/* "v1_" and the hash; out holds ATOLL_E2B_SIGNATURE_MAX bytes. */
void atoll_e2b_sign(const struct atoll_e2b_signed *what, const char *token, char *out);
/* Whether the request's signature was made with the token. In constant time. */
bool atoll_e2b_signature_fits(const struct atoll_http_request *req, const char *token);
/* Checks the expiration in the request: 1 expired, 0 valid, -EINVAL malformed. */
int atoll_e2b_signature_expired(const struct atoll_http_request *req) ATOLL_MUST_CHECK;

/* State that is freed with a sandbox. */

void atoll_notes_drop(struct atoll_e2b_plane *plane, const char *sandbox_id);
void atoll_notes_drop_all(struct atoll_e2b_plane *plane);
void atoll_watchers_drop(struct atoll_e2b_plane *plane, const char *sandbox_id); /* NULL: all */
