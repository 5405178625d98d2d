#pragma once
#include <pthread.h>
#include "base/list.h"
#include "provider/e2b/e2b.h"
#include "provider/e2b/http.h"
#include "provider/e2b/messages.h"
#include "provider/e2b/pump.h"
#include "provider/e2b/remotes.h"

/* Shared by the files of this provider. */

#define ATOLL_E2B_ENVD_PORT 49983
/* The directory of the running agent; only root may access it. */
#define ATOLL_E2B_RUN_DIR "/run/atoll-agent"
#define ATOLL_E2B_AGENT ATOLL_E2B_RUN_DIR "/agent"
#define ATOLL_E2B_SOCKET ATOLL_E2B_RUN_DIR "/agent.sock"

struct atoll_e2b_provider {
    struct atoll_sync_provider base;
    struct atoll_sync_ops ops; /* base.ops, with the isolation of this service */
    char *api_url, *sandbox_url, *domain, *key, *template_id, *daemon_id, *agent_path; /* owned */
    char *isolation;                                                                   /* owned */
    struct atoll_size sizes[ATOLL_SIZES_MAX];
    size_t size_count;
    bool domain_is_known;           /* configured, or the service is E2B's own */
    char *ca_file;                  /* owned; NULL: the system's certificates */
    struct curl_slist *api_headers; /* owned */
    struct atoll_e2b_http *http;
    struct atoll_e2b_remotes *remotes;
    struct atoll_e2b_pump *pump;
    pthread_mutex_t agent_lock; /* guards the three members below, which are set once */
    void *agent_packed;         /* the agent, compressed with gzip; owned */
    size_t agent_packed_len;
    char agent_sha256[65];
};

/* Sends a request to the API. path includes the query; ownership of body (may be NULL) passes. */
int atoll_e2b_api(struct atoll_e2b_provider *p, const struct atoll_sync_call *call,
                  const char *what, const char *method, const char *path, json_t *body,
                  struct atoll_e2b_answer *ret, struct atoll_error *err) ATOLL_MUST_CHECK;
/* The same; every status except 2xx is an error, and *ret_json (may be NULL) is the answer. */
int atoll_e2b_api_json(struct atoll_e2b_provider *p, const struct atoll_sync_call *call,
                       const char *what, const char *method, const char *path, json_t *body,
                       json_t **ret_json, struct atoll_error *err) ATOLL_MUST_CHECK;
/* The error of an answer whose status is not 2xx. */
int atoll_e2b_api_refused(const struct atoll_e2b_provider *p, const char *what,
                          struct atoll_e2b_answer *answer, struct atoll_error *err);

/* URL and headers of requests to a sandbox's envd as root; the caller frees both. */
int atoll_e2b_envd(const struct atoll_e2b_provider *p, const struct atoll_e2b_remote *remote,
                   char **ret_url, struct curl_slist **ret_headers,
                   struct atoll_error *err) ATOLL_MUST_CHECK;
/* Appends to the list; on failure the list is freed. */
int atoll_e2b_header(struct curl_slist **list, struct atoll_error *err, const char *fmt, ...)
    ATOLL_PRINTF(3, 4) ATOLL_MUST_CHECK;

/* Uploads the agent to a new sandbox, if it is not there, and starts it. */
int atoll_e2b_agent_start(struct atoll_e2b_provider *p, const struct atoll_sync_call *call,
                          const struct atoll_e2b_remote *remote,
                          struct atoll_error *err) ATOLL_MUST_CHECK;
/* Opens a stream to the agent. */
int atoll_e2b_agent_dial(struct atoll_e2b_provider *p, const struct atoll_sync_call *call,
                         const struct atoll_e2b_remote *remote, int *ret_fd,
                         struct atoll_error *err) ATOLL_MUST_CHECK;

static inline void atoll_e2b_auto_json(json_t **json)
{
    json_decref(*json);
}
#define ATOLL_E2B_AUTOJSON ATOLL_CLEANUP(atoll_e2b_auto_json)

static inline void atoll_e2b_auto_slist(struct curl_slist **list)
{
    curl_slist_free_all(*list);
}
#define ATOLL_E2B_AUTOSLIST ATOLL_CLEANUP(atoll_e2b_auto_slist)
#define ATOLL_E2B_AUTOANSWER ATOLL_CLEANUP(atoll_e2b_answer_done)
