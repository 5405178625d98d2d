#pragma once
#include "api/e2b/e2b.h"
#include "api/fields.h"
#include "registry/registry.h"

/*
 * Shared by the files of the control plane. Field names, statuses and some texts are E2B's, since
 * its clients depend on them.
 */
#define ATOLL_E2B_WHO "a client of the E2B API"
#define ATOLL_E2B_WHO_GONE "the daemon, because its creator went away"
#define ATOLL_E2B_CLIENT_ID "atoll"
/* Version of the interface, not of a program: clients choose features by it. */
#define ATOLL_E2B_ENVD_VERSION "0.6.13"

/* Default timeouts: version 1 of the API, and version 2. */
#define ATOLL_E2B_TIMEOUT_V1_S 15
#define ATOLL_E2B_TIMEOUT_S 300

/* Maximum size of the stored facts of a sandbox. */
#define ATOLL_E2B_FACTS_MAX ((size_t)64 * 1024)

#define ATOLL_E2B_HANDLER(name) \
    void atoll_e2b_##name(struct atoll_api_call *call, const uint8_t *body, size_t n)

/* control_create.c */
ATOLL_E2B_HANDLER(create_v1);
ATOLL_E2B_HANDLER(create);
/* control_list.c */
ATOLL_E2B_HANDLER(list_running);
ATOLL_E2B_HANDLER(list);
/* control_state.c */
ATOLL_E2B_HANDLER(get);
ATOLL_E2B_HANDLER(kill);
ATOLL_E2B_HANDLER(set_timeout);
ATOLL_E2B_HANDLER(refresh);
ATOLL_E2B_HANDLER(set_network);
/* control_pause.c */
ATOLL_E2B_HANDLER(pause);
ATOLL_E2B_HANDLER(connect);
ATOLL_E2B_HANDLER(resume);
/* metrics.c, logs.c */
ATOLL_E2B_HANDLER(metrics);
ATOLL_E2B_HANDLER(metrics_of_many);
ATOLL_E2B_HANDLER(logs_v1);
ATOLL_E2B_HANDLER(logs);
/* templates.c */
ATOLL_E2B_HANDLER(templates);
ATOLL_E2B_HANDLER(template_get);
ATOLL_E2B_HANDLER(template_alias);
ATOLL_E2B_HANDLER(template_remove);
ATOLL_E2B_HANDLER(template_share);
/* template_tags.c */
ATOLL_E2B_HANDLER(template_tags);
ATOLL_E2B_HANDLER(template_tags_assign);
ATOLL_E2B_HANDLER(template_tags_remove);
/* template_upload.c */
ATOLL_E2B_HANDLER(template_files);
ATOLL_E2B_HANDLER(template_upload);
/* template_build.c, template_status.c */
ATOLL_E2B_HANDLER(template_request);
ATOLL_E2B_HANDLER(template_start);
ATOLL_E2B_HANDLER(template_build_get);
/* snapshots.c */
ATOLL_E2B_HANDLER(snapshot_create);
ATOLL_E2B_HANDLER(snapshots);
ATOLL_E2B_HANDLER(fork);
/* secrets.c */
ATOLL_E2B_HANDLER(secret_list);
ATOLL_E2B_HANDLER(secret_create);
ATOLL_E2B_HANDLER(secret_get);
ATOLL_E2B_HANDLER(secret_update);
ATOLL_E2B_HANDLER(secret_remove);
/* account.c */
ATOLL_E2B_HANDLER(health);
ATOLL_E2B_HANDLER(teams);
ATOLL_E2B_HANDLER(unsupported);

/* views.c: responses. */

/* The sandbox of the call if these clients may see it: running or paused. NOT_FOUND. */
struct atoll_sandbox *atoll_e2b_find(const struct atoll_api_call *call, struct atoll_error *err);
bool atoll_e2b_is_paused(const struct atoll_sandbox_view *view);
/* Running or paused; other sandboxes are invisible to these clients. */
bool atoll_e2b_is_known(const struct atoll_sandbox_view *view);
/* "Sandbox", the response to create and connect. */
void atoll_e2b_view_made(struct atoll_json_out *out, const struct atoll_api *api,
                         const struct atoll_sandbox *sandbox);
/* The same as a member of an object. */
void atoll_e2b_view_made_as(struct atoll_json_out *out, const char *key,
                            const struct atoll_api *api, const struct atoll_sandbox *sandbox);
/* "ListedSandbox"; with `full`, "SandboxDetail". */
void atoll_e2b_view_sandbox(struct atoll_json_out *out, const struct atoll_api *api,
                            const struct atoll_sandbox *sandbox, bool full);
/* Answers with "Sandbox". */
void atoll_e2b_reply_made(struct atoll_api_call *call, int status,
                          const struct atoll_sandbox *sandbox);
/* An atoll_done_fn whose arg is the call: answers 204. */
void atoll_e2b_done(void *arg, const struct atoll_error *error);

/* views.c: requests. */

/* Parses and decodes a body with one table; the body may be empty. On an error the body is
 * freed. */
int atoll_e2b_decode(struct atoll_body *body, const uint8_t *bytes, size_t n,
                     const struct atoll_field *table, void *into,
                     struct atoll_error *err) ATOLL_MUST_CHECK;
/* Checks a timeout in whole seconds against the daemon's maximum. INVALID_ARGUMENT. */
int atoll_e2b_check_timeout(const struct atoll_api_call *call, uint64_t seconds,
                            struct atoll_error *err) ATOLL_MUST_CHECK;

/* control_state.c: moves the deadline to that many seconds from now, unless it is later already
 * or the sandbox has no deadline. */
int atoll_e2b_extend(struct atoll_engine *engine, const struct atoll_sandbox_view *view,
                     uint32_t seconds, struct atoll_error *err) ATOLL_MUST_CHECK;

/* control_network.c: validates network settings. INVALID_ARGUMENT. denied: another field denies
 * all traffic. */
int atoll_e2b_network_check(const json_t *network, bool denied,
                            struct atoll_error *err) ATOLL_MUST_CHECK;
/* The settings to store, without passwords. `old`: its fields for inbound traffic stay; or NULL. */
json_t *atoll_e2b_network_keep(const json_t *network, const json_t *old);

/* control_policy.c: the canonical policy of checked settings, malloced; NULL: all is allowed. denied:
 * allow_internet_access is false. old: the policy that it replaces, or NULL. INVALID_ARGUMENT. */
int atoll_e2b_network_policy(const json_t *network, bool denied, const char *old, char **ret,
                             struct atoll_error *err) ATOLL_MUST_CHECK;

/* template_name.c: a template as clients name it. */
struct atoll_e2b_name {
    char team[65];                        /* "": none was given */
    char alias[65];                       /* in lower case */
    char tag[ATOLL_TEMPLATE_TAG_MAX + 1]; /* likewise; "": none was given */
};
/* "alias", "team/alias" or either with ":tag". -EINVAL. */
int atoll_e2b_name_parse(const char *asked, struct atoll_e2b_name *ret) ATOLL_MUST_CHECK;
bool atoll_e2b_tag_is_valid(const char *tag);
/* A tag as clients, and as the engine writes it. */
const char *atoll_e2b_tag_shown(const char *tag);
const char *atoll_e2b_tag_stored(const char *tag);

struct atoll_e2b_template {
    struct atoll_e2b_name asked;
    char alias[129]; /* without team and tag */
    bool is_environment;
    /* Of a template: only its limits are set, those of the version. */
    struct atoll_environment environment;
    const char
        *name; /* of the engine's template; NULL: the environment has an image or a Dockerfile */
    bool has_view;
    struct atoll_template_view view; /* of the engine's template */
    char reference[300];
};
/* NOT_FOUND with the text that clients expect. */
int atoll_e2b_template_find(const struct atoll_api_call *call, const char *asked,
                            struct atoll_e2b_template *ret,
                            struct atoll_error *err) ATOLL_MUST_CHECK;
/* Whether the caller may see a template. */
bool atoll_e2b_template_sees(const struct atoll_api_call *call,
                             const struct atoll_template_view *view);

/* templates.c */

/* Finds the template named in the path; false: the call has been answered. */
bool atoll_e2b_template_in_path(struct atoll_api_call *call, const char *asked,
                                struct atoll_e2b_template *ret);
/* Whether the caller may change it. PERMISSION_DENIED. */
int atoll_e2b_template_check_owner(const struct atoll_api_call *call,
                                   const struct atoll_e2b_template *t,
                                   struct atoll_error *err) ATOLL_MUST_CHECK;
/* The id of its version; an environment has one that does not change as long as its template. */
void atoll_e2b_template_build_id(const struct atoll_e2b_template *t,
                                 char out[ATOLL_VERSION_ID_LEN + 1]);
int64_t atoll_e2b_template_created(const struct atoll_api_call *call,
                                   const struct atoll_e2b_template *t);
