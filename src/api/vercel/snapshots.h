#pragma once
#include "api/vercel/vercel_internal.h"

/*
 * A snapshot is a version of the template "vercel-ID", ID being that of the sandbox; its tag says which
 * run it was taken of, how, and when it ends. So its facts outlive the sandbox.
 */
#define ATOLL_VERCEL_SNAPSHOT_TEMPLATE "vercel-"
#define ATOLL_VERCEL_SNAPSHOT_PREFIX "snap_"
#define ATOLL_VERCEL_SNAPSHOT_ID_MAX 64
#define ATOLL_VERCEL_SNAPSHOT_NAME_MAX 160

struct atoll_vercel_snapshot_tag {
    int64_t number; /* of the run */
    int64_t expires_unix_ms;
    bool automatic;
};

struct atoll_vercel_snapshot {
    char id[ATOLL_VERCEL_SNAPSHOT_ID_MAX], parent[ATOLL_VERCEL_SNAPSHOT_ID_MAX]; /* parent: or "" */
    char session[ATOLL_VERCEL_SID_MAX];                                          /* it is of */
    int64_t created_unix_ms, expires_unix_ms;                                    /* expires: or 0 */
    uint64_t bytes;
    bool automatic; /* made by a stop */
    bool deleted;
};

/* NAME:TAG for a new snapshot. parent: the id of the one that the sandbox had before, or "". */
void atoll_vercel_snapshot_name(const char *sandbox_id, const struct atoll_vercel_snapshot_tag *tag,
                                const char *parent, char out[ATOLL_VERCEL_SNAPSHOT_NAME_MAX]);
/* When a snapshot ends that is made now and kept that long, at the latest at the last time that clients can show.
 * 0: never, for 0 and less. */
int64_t atoll_vercel_snapshot_expiry(double keep_ms);
void atoll_vercel_snapshot_of(const struct atoll_template_view *view,
                              struct atoll_vercel_snapshot *ret);
void atoll_vercel_view_snapshot(struct atoll_json_out *out, const char *key,
                                const struct atoll_vercel_snapshot *s, bool v1);
/* A snapshot of the caller's tenant. False: it does not exist, or it has expired. */
bool atoll_vercel_snapshot_find(const struct atoll_api_call *call, const char *text,
                                struct atoll_template_view *ret);

/* --- disk.c: the disk of a persistent sandbox --- */

/* Which automatic snapshots stay. Returns how long a new one is kept; 0: for ever. */
int64_t atoll_vercel_retention_read(const json_t *facts, struct atoll_vercel_retention *ret);
/* Whether the disk has files of an ended run that the current snapshot does not have. */
bool atoll_vercel_disk_is_newer(const struct atoll_vercel_box *box);
/* Records the snapshot of the end of a run, which becomes the current one. */
int atoll_vercel_note_snapshot(struct atoll_engine *engine, const char *id, int64_t number,
                               const char *snapshot, struct atoll_error *err) ATOLL_MUST_CHECK;
/* Takes such a snapshot now, of a disk that is newer. done may be called before this returns. */
void atoll_vercel_disk_copy(const struct atoll_api_call *call, const struct atoll_vercel_box *box,
                            atoll_done_fn *done, void *arg);
