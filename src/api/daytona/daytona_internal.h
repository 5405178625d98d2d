#pragma once
#include <jansson.h>
#include "api/daytona/daytona.h"
#include "api/fields.h"
#include "api/kit/facts.h"
#include "api/kit/origin.h"
#include "api/preview_rules.h"
#include "base/list.h"
#include "base/map.h"
#include "base/shares.h"

/*
 * Shared by the files of the control plane. Field names, statuses and some texts are Daytona's, since
 * its clients depend on them.
 */
#define ATOLL_DAYTONA_WHO "a client of the Daytona API"
#define ATOLL_DAYTONA_WHO_GONE "the daemon, because its creator went away"
#define ATOLL_DAYTONA_VERSION "0.190.0" /* of the interface */
#define ATOLL_DAYTONA_REGION "us"       /* the only region, and the default of `target` */
#define ATOLL_DAYTONA_USER "daytona"    /* of sandboxes with the programs of the host */
#define ATOLL_DAYTONA_OTHER_USER "user" /* the default user of sandboxes that have no other */
#define ATOLL_DAYTONA_BUILD_TEMPLATE \
    "daytona-build" /* of versions that single sandboxes are made from; they have no tags */
#define ATOLL_DAYTONA_DISK_LABEL "atoll.daytona.disk" /* of images: GiB of a snapshot's sandboxes */
#define ATOLL_DAYTONA_SIZE_MAX_GIB 4096
#define ATOLL_DAYTONA_UNTOLD_BYTES_MAX ((size_t)64 * 1024 * 1024)
#define ATOLL_DAYTONA_FACTS_MAX ((size_t)64 * 1024)

/* state.c: the state of the facade. */
struct atoll_daytona {
    struct atoll_api *api;
    struct atoll_subscription *events;
    struct atoll_list sockets; /* socketio.c */
    size_t socket_count;
    struct atoll_map activities; /* of struct activity, by sandbox */
    struct atoll_timer sweep;
    struct atoll_list waiting; /* sandboxes that wait for their builds; waiting.c */
    struct atoll_timer resume; /* of those that an earlier daemon stored */
    struct atoll_list uploads; /* in parts; storage_parts.c */
    struct atoll_list
        untold; /* commands that shells of sessions have not taken; toolbox_session_exec.c */
    struct atoll_shares untold_bytes; /* of these, by tenant */
};
struct atoll_daytona *atoll_daytona_of(const struct atoll_api *api);
void *atoll_daytona_open(struct atoll_api *api, const uint32_t *options);
void atoll_daytona_close(void *state);
/* Records that a client uses the sandbox. */
void atoll_daytona_touch(const struct atoll_api *api, const char *sandbox_id);
/* Unix ms of the last recorded use, or of its creation. After a restart of the daemon it can be a minute too
 * early. */
int64_t atoll_daytona_last_activity(const struct atoll_api *api,
                                    const struct atoll_sandbox_view *view, const json_t *facts);

/* Whether a backup is being made. */
bool atoll_daytona_is_backing_up(const struct atoll_api *api, const char *sandbox_id);
void atoll_daytona_set_backing_up(const struct atoll_api *api, const char *sandbox_id, bool on);

/* control_preview.c: "http://{{PORT}}-{{sandboxId}}.DOMAIN:PORT"; "" without a listener. */
void atoll_daytona_preview_template(const struct atoll_api *api, char *out, size_t cap);

/* control_backup.c: removes the backup of a sandbox that has ended, if there is one. */
#define ATOLL_DAYTONA_BACKUP "backup-" /* name of the snapshot, with the id of the sandbox */
void atoll_daytona_drop_backup(struct atoll_engine *engine, const char *owner,
                               const char *sandbox_id);
/* Removes one whose sandbox has ended and which no other sandbox uses any more, if there is one. */
void atoll_daytona_drop_orphaned_backup(struct atoll_engine *engine);

/* errors.c: fail() of both protocols. */
void atoll_daytona_fail(struct atoll_api_call *call, int status, const struct atoll_error *error);

/* facts.c: members are named as in the view of a sandbox, and "destroyAt", "backupAt", "used", "updated"
 * (unix ms), "backupError" (why the last one failed), "archived", "halted" (it was stopped, not paused: it has no persistent disk), "destroyed" (it is
 * being destroyed, and these clients do not see it any more). */
#define ATOLL_DAYTONA_AUTO_STOP "autoStopInterval" /* minutes */
#define ATOLL_DAYTONA_AUTO_PAUSE "autoPauseInterval"
#define ATOLL_DAYTONA_AUTO_ARCHIVE "autoArchiveInterval"
#define ATOLL_DAYTONA_AUTO_DELETE "autoDeleteInterval"
extern const struct atoll_facts_kind atoll_daytona_kind;
/* An interval of auto-archive as it is kept: at most 30 days, which 0 stands for. */
int64_t atoll_daytona_archive_minutes(int64_t minutes);
/* A new reference; defaults for a sandbox of another facade. */
json_t *atoll_daytona_facts(const struct atoll_sandbox *sandbox);
int atoll_daytona_facts_store(struct atoll_engine *engine, const char *id, json_t *facts,
                              struct atoll_error *err) ATOLL_MUST_CHECK;
/* Sets one member and stores the facts; takes ownership of the value. */
int atoll_daytona_change(struct atoll_engine *engine, const char *id, const char *name,
                         json_t *value, struct atoll_error *err) ATOLL_MUST_CHECK;

/* views.c */

/* "started", "stopped" … */
const char *atoll_daytona_state(const struct atoll_sandbox_view *view, const json_t *facts);
/* Whether its processes died and its disk is there. */
bool atoll_daytona_is_recoverable(const struct atoll_sandbox_view *view);
enum atoll_daytona_detail {
    ATOLL_DAYTONA_ITEM, /* of a list */
    ATOLL_DAYTONA_FULL, /* without values of environment variables, which can be secrets */
    ATOLL_DAYTONA_WITH_ENV,
};
/* WITH_ENV for a key that may use the sandbox; not for an answer that is stored for repeated requests. */
enum atoll_daytona_detail atoll_daytona_detail_for(const struct atoll_api_call *call);
void atoll_daytona_view_sandbox(struct atoll_json_out *out, const char *key,
                                const struct atoll_api *api, const char *origin,
                                const struct atoll_sandbox *sandbox,
                                enum atoll_daytona_detail detail);
/* The same from its parts, for a sandbox that the engine does not have yet. A fact "state" stands for the
 * state. */
void atoll_daytona_view_of(struct atoll_json_out *out, const char *key, const struct atoll_api *api,
                           const char *origin, const struct atoll_sandbox_view *v,
                           const json_t *facts, enum atoll_daytona_detail detail);
void atoll_daytona_reply_sandbox(struct atoll_api_call *call, int status, const char *id);
void atoll_daytona_no_sandbox(struct atoll_api_call *call);
/* An atoll_done_fn whose arg is the call: answers with the sandbox of the path. */
void atoll_daytona_done(void *arg, const struct atoll_error *error);

/* How clients of the toolbox and of previews show the token of a sandbox. */
#define ATOLL_DAYTONA_TOKEN_HEADER ATOLL_PREVIEW_DAYTONA_HEADER
#define ATOLL_DAYTONA_TOKEN_QUERY ATOLL_PREVIEW_DAYTONA_QUERY

/* signing.c: whether the URL of the request is signed with the key of the sandbox. */
bool atoll_daytona_is_signed(const struct atoll_api_call *call);

/* control_preview.c: serve() of the facade: previews by signed URL, by token, or public ones. */
bool atoll_daytona_serve(void *state, struct atoll_http_request *req);

/* control_network.c: the canonical policy of network settings, malloced; NULL: all is allowed.
 * INVALID_ARGUMENT. The lists are separated by commas; NULL or "": none. proxy: as in a policy, borrowed;
 * NULL: none. */
int atoll_daytona_policy(bool block_all, const char *addresses, const char *domains, json_t *proxy,
                         char **ret, struct atoll_error *err) ATOLL_MUST_CHECK;

/* control_create.c */

/* A snapshot by its name or id. NOT_FOUND. */
int atoll_daytona_snapshot_find(const struct atoll_api_call *call, const char *text,
                                struct atoll_template_view *ret,
                                struct atoll_error *err) ATOLL_MUST_CHECK;
/* snapshots.c: the build of a snapshot, for its log. NOT_FOUND. */
int atoll_daytona_snapshot_build(const struct atoll_api_call *call, const char *text,
                                 char out[ATOLL_VERSION_ID_LEN + 1],
                                 struct atoll_error *err) ATOLL_MUST_CHECK;
bool atoll_daytona_snapshot_is_active(const struct atoll_template_view *t);
/* The disk that its sandboxes have, in bytes; 0: unknown. */
uint64_t atoll_daytona_snapshot_disk(const struct atoll_template_view *t);
/* Walks the snapshots that every account has, with their sizes in CPUs and GiB; false at the end. The
 * first one is the default. */
bool atoll_daytona_default_snapshot(size_t i, const char **ret_name, uint32_t *ret_cpus,
                                    uint32_t *ret_memory, uint32_t *ret_disk);

/* control_change.c: carries the intervals of the facts over to the engine. */
int atoll_daytona_apply_idle(struct atoll_engine *engine, const char *id,
                             struct atoll_error *err) ATOLL_MUST_CHECK;

/* Handlers. absent.c: 501, with a reason */
ATOLL_DAYTONA_HANDLER(absent);
/* account.c */
ATOLL_DAYTONA_HANDLER(config);
ATOLL_DAYTONA_HANDLER(health);
ATOLL_DAYTONA_HANDLER(regions);
ATOLL_DAYTONA_HANDLER(organizations);
ATOLL_DAYTONA_HANDLER(organization);
ATOLL_DAYTONA_HANDLER(current_key);
/* control_create.c */
ATOLL_DAYTONA_HANDLER(create);
/* control_list.c */
ATOLL_DAYTONA_HANDLER(list);
ATOLL_DAYTONA_HANDLER(list_pages);
/* control_state.c */
ATOLL_DAYTONA_HANDLER(get);
ATOLL_DAYTONA_HANDLER(remove);
ATOLL_DAYTONA_HANDLER(start);
ATOLL_DAYTONA_HANDLER(stop);
ATOLL_DAYTONA_HANDLER(pause);
ATOLL_DAYTONA_HANDLER(archive);
ATOLL_DAYTONA_HANDLER(recover);
/* control_backup.c */
ATOLL_DAYTONA_HANDLER(backup);
/* control_change.c */
ATOLL_DAYTONA_HANDLER(set_labels);
ATOLL_DAYTONA_HANDLER(set_autostop);
ATOLL_DAYTONA_HANDLER(set_autopause);
ATOLL_DAYTONA_HANDLER(set_autoarchive);
ATOLL_DAYTONA_HANDLER(set_autodelete);
ATOLL_DAYTONA_HANDLER(set_ttl);
ATOLL_DAYTONA_HANDLER(set_public);
ATOLL_DAYTONA_HANDLER(note_activity);
/* control_network.c, control_resize.c */
ATOLL_DAYTONA_HANDLER(set_network);
ATOLL_DAYTONA_HANDLER(resize);
/* build_logs.c */
ATOLL_DAYTONA_HANDLER(sandbox_logs_url);
ATOLL_DAYTONA_HANDLER(sandbox_logs);
ATOLL_DAYTONA_HANDLER(snapshot_logs_url);
ATOLL_DAYTONA_HANDLER(snapshot_logs);
/* snapshots.c, control_copy.c */
ATOLL_DAYTONA_HANDLER(snapshot_list);
ATOLL_DAYTONA_HANDLER(snapshot_get);
ATOLL_DAYTONA_HANDLER(snapshot_create);
ATOLL_DAYTONA_HANDLER(snapshot_remove);
ATOLL_DAYTONA_HANDLER(snapshot_activate);
ATOLL_DAYTONA_HANDLER(snapshot_deactivate);
ATOLL_DAYTONA_HANDLER(snapshot_sandbox);
ATOLL_DAYTONA_HANDLER(fork);
/* control_ssh.c */
ATOLL_DAYTONA_HANDLER(ssh_create);
ATOLL_DAYTONA_HANDLER(ssh_revoke);
ATOLL_DAYTONA_HANDLER(ssh_validate);
/* storage.c */
ATOLL_DAYTONA_HANDLER(push_access);
/* volumes.c */
ATOLL_DAYTONA_HANDLER(volume_list);
ATOLL_DAYTONA_HANDLER(volume_get);
ATOLL_DAYTONA_HANDLER(volume_create);
ATOLL_DAYTONA_HANDLER(volume_remove);
/* control_preview.c, signing.c */
ATOLL_DAYTONA_HANDLER(preview_url);
ATOLL_DAYTONA_HANDLER(signed_preview);
ATOLL_DAYTONA_HANDLER(expire_preview);
ATOLL_DAYTONA_HANDLER(toolbox_url);
ATOLL_DAYTONA_HANDLER(signing_key);
ATOLL_DAYTONA_HANDLER(rotate_key);
/* socketio.c */
ATOLL_DAYTONA_HANDLER(socketio);
