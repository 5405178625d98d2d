#pragma once
#include "api/e2b/plane.h"

/*
 * Builds that a client has requested: name and tags, until the client sends the steps. What is known
 * of a build after that comes from the engine (engine/build/build.h), except a failure before the
 * engine has the build. A restart of the daemon forgets them: the client requests the build again.
 *
 * Thread: the loop's.
 */
#define ATOLL_E2B_REQUESTS_MAX 128 /* of one tenant; the oldest is forgotten */

struct atoll_e2b_request {
    struct atoll_list node;
    char id[ATOLL_VERSION_ID_LEN + 1];
    char tenant[65], name[65];
    char tags[(ATOLL_TEMPLATE_TAG_MAX + 1) * 16]; /* as the engine has them, with spaces between */
    uint32_t cpu_millis;
    uint64_t memory_bytes;
    int64_t created_unix_ms;
    bool started;
    bool failed;              /* before the engine had it; the base is the reason */
    struct atoll_error error; /* with failed */
};

void atoll_e2b_requests_init(struct atoll_e2b_plane *plane);
void atoll_e2b_requests_done(struct atoll_e2b_plane *plane);
/* A new request with an id, to be filled in. */
struct atoll_e2b_request *atoll_e2b_request_new(struct atoll_e2b_plane *plane, const char *tenant);
/* The place in the log of a build where clients read last; that of a build which was not read lately is the
 * beginning. */
struct atoll_e2b_place *atoll_e2b_place_of(struct atoll_e2b_plane *plane, const char *build_id);
/* NULL: unknown, or of another tenant. */
struct atoll_e2b_request *atoll_e2b_request_find(struct atoll_e2b_plane *plane, const char *tenant,
                                                 const char *id);
