#pragma once
#include "base/list.h"
#include "base/map.h"
#include "task/swarm.h"
#include "task/task_internal.h"

/*
 * Internal to swarms.
 */
struct atoll_swarm {
    struct atoll_swarms *swarms;
    char id[ATOLL_ID_LEN + 1];
    char tenant[65];
    enum atoll_task_state state;
    json_t *request; /* owned */
    json_t *members; /* owned; in the order of request.tasks */
    json_t *memory;  /* owned */
    int64_t created_unix_ms, ended_unix_ms;
    bool stopping; /* a client has cancelled it, or a member failed with failFast */
    bool canceled;
    bool advancing;
    bool
        expired; /* its lease or lifetime has ended: all of it is removed once its tasks have ended */
    int64_t lease_unix_ms; /* when the lease ends; 0: it has none */
    struct atoll_timer expiry;
    struct atoll_list watches;
    struct atoll_timer telling;
};

struct atoll_swarms {
    struct atoll_tasks *tasks; /* borrowed */
    struct atoll_store *store; /* borrowed */
    struct atoll_hubs *hubs;
    struct atoll_map by_id; /* of struct atoll_swarm, owned */
};

/* swarms.c */
bool atoll_swarm_has_ended(const struct atoll_swarm *s);
/* NULL: NOT_FOUND. tenant NULL: of any. */
struct atoll_swarm *atoll_swarm_get(struct atoll_swarms *swarms, const char *tenant, const char *id,
                                    struct atoll_error *err);
void atoll_swarm_save(struct atoll_swarm *s);
/* Ends its members. */
void atoll_swarm_stop(struct atoll_swarm *s);
/* Drops the row and frees it. */
int atoll_swarm_forget(struct atoll_swarm *s, struct atoll_error *err) ATOLL_MUST_CHECK;

/* swarm_lease.c */
/* Begins the lease of a new swarm. */
void atoll_swarm_lease_begin(struct atoll_swarm *s);
/* Waits for the end of the lease and of the lifetime; continues what an earlier daemon has begun. */
void atoll_swarm_lease_arm(struct atoll_swarm *s);

/* hub.c: the memory of a swarm that is at another Atoll */
struct atoll_hubs;
int atoll_hubs_new(struct atoll_swarms *swarms, struct atoll_hubs **ret,
                   struct atoll_error *err) ATOLL_MUST_CHECK;
struct atoll_hubs *atoll_hubs_free(struct atoll_hubs *hubs);
/* Whether the memory of this swarm is at a hub. */
bool atoll_swarm_has_hub(const struct atoll_swarm *s);
/* Sends changes to the hub (NULL: none), and then has its memory as that of the swarm. done is called once, from
 * the loop, with the id of the task; error NULL: it has succeeded. */
void atoll_hub_sync(struct atoll_swarm *s, const char *task_id, const json_t *changes,
                    void (*done)(struct atoll_tasks *tasks, const char *task_id,
                                 const struct atoll_error *error));
