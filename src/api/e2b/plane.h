#pragma once
#include "api/api_internal.h"
#include "api/e2b/e2b.h"
#include "base/map.h"
#include "net/proxy.h"

/*
 * What the sandbox plane of the E2B facade keeps in memory, one per API. All of it can be lost: tags of
 * processes, watchers that are polled, and which ids were made by this facade lately.
 */
#define ATOLL_PLANE_MADE_MAX 4096

struct atoll_e2b_plane {
    struct atoll_api *api;
    struct atoll_subscription *events;                /* owned */
    struct atoll_proxy *proxy;                        /* owned: to ports inside */
    struct atoll_list dialings;                       /* ports.c */
    struct atoll_map notes_by_sandbox, notes_by_exec; /* process_notes.c */
    struct atoll_list watchers;                       /* watchers.c */
    /* Ids of sandboxes made by this facade, gone ones too: their hosts are answered here. */
    char (*made)[ATOLL_ID_LEN + 1]; /* owned, a ring */
    size_t made_count;
};

/* The API's; made when it is first asked for. */
struct atoll_e2b_plane *atoll_e2b_plane_of(struct atoll_api *api);

/* --- answers that are not the sandbox's own (plane_answers.c); they end the request --- */

void atoll_plane_no_sandbox(struct atoll_http_request *req, const char *id);
void atoll_plane_no_port(struct atoll_http_request *req, const char *id, uint16_t port);
/* 400, 403 …: plain text, as the proxy of the original has it. */
void atoll_plane_refuse(struct atoll_http_request *req, int status, const char *text);
/* Sets the headers that let pages of any origin read the answer. */
void atoll_plane_allow_origins(struct atoll_http_request *req);
/* Answers OPTIONS. */
void atoll_plane_preflight(struct atoll_http_request *req);

/* --- ports of programs inside (ports.c) --- */

void atoll_plane_ports_open(struct atoll_e2b_plane *plane);
void atoll_plane_ports_close(struct atoll_e2b_plane *plane);
/* Passes the request on; mask_host "" leaves Host as it is, by_header: it was not addressed by host. */
void atoll_plane_forward(struct atoll_e2b_plane *plane, struct atoll_http_request *req,
                         const char *id, uint16_t port, const char *mask_host, bool by_header);

/* --- signed file URLs (signature.c) --- */

#define ATOLL_E2B_SIGNATURE_MAX 64
struct atoll_e2b_signed {
    const char *path, *operation, *user, *expiration; /* "": none */
};
/* "v1_" and the hash; out holds ATOLL_E2B_SIGNATURE_MAX bytes. */
void atoll_e2b_sign(const struct atoll_e2b_signed *what, const char *token, char *out);
/* Whether the request's signature was made with the token. In constant time. */
bool atoll_e2b_signature_fits(const struct atoll_http_request *req, const char *token);
/* What the request says about its own expiration: 1 it is over, 0 it is not, -EINVAL. */
int atoll_e2b_signature_expired(const struct atoll_http_request *req) ATOLL_MUST_CHECK;

/* --- what goes with a sandbox --- */

void atoll_notes_drop(struct atoll_e2b_plane *plane, const char *sandbox_id);
void atoll_notes_drop_all(struct atoll_e2b_plane *plane);
void atoll_watchers_drop(struct atoll_e2b_plane *plane, const char *sandbox_id); /* NULL: all */
