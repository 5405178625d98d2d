/*
 * /volumecontent/{volumeID}/…: requests that make files, or change their owner and mode.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "api/e2b/volumes.h"
#include "api/kit/file_receive.h"
#include "loop/steps.h"

#define ID_MAX 65535 /* of a sandbox */
#define NOT_GIVEN UINT64_MAX

struct change {
    struct atoll_e2b_volume_file file;
    struct atoll_steps steps;
    uint64_t uid, gid, mode;
    bool force;
    bool exists; /* the directory that was to be made */
    int status;  /* of success */
};

static struct change *change_new(int status)
{
    struct change *c = atoll_api_alloc(sizeof(*c));

    c->uid = c->gid = c->mode = NOT_GIVEN;
    c->status = status;
    return c;
}

static int take_query(const struct atoll_api_call *call, struct change *c, struct atoll_error *err)
{
    int r = atoll_api_query_u64(call, "uid", 0, ID_MAX, &c->uid, err);

    if (r == 0)
        r = atoll_api_query_u64(call, "gid", 0, ID_MAX, &c->gid, err);
    if (r == 0)
        r = atoll_api_query_u64(call, "mode", 0, 07777, &c->mode, err);
    return r < 0 ? r : atoll_api_query_flag(call, "force", &c->force, err);
}

/* Steps. */

static struct atoll_engine *engine_of(const struct change *c)
{
    return c->file.call->engine;
}

static const char *sandbox_of(const struct change *c)
{
    return c->file.call->params.id;
}

static void set_mode(void *arg)
{
    struct change *c = arg;

    if (c->mode == NOT_GIVEN || c->exists)
        atoll_steps_done(&c->steps, NULL);
    else
        atoll_files_chmod(engine_of(c), sandbox_of(c), ATOLL_E2B_VOLUME_USER, c->file.path,
                          (uint32_t)c->mode, atoll_steps_done, &c->steps);
}

static void set_owner(void *arg)
{
    struct change *c = arg;
    char uid[24] = "", gid[24] = "";

    if ((c->uid == NOT_GIVEN && c->gid == NOT_GIVEN) || c->exists) {
        atoll_steps_done(&c->steps, NULL);
        return;
    }
    if (c->uid != NOT_GIVEN)
        (void)snprintf(uid, sizeof(uid), "%llu", (unsigned long long)c->uid);
    if (c->gid != NOT_GIVEN)
        (void)snprintf(gid, sizeof(gid), "%llu", (unsigned long long)c->gid);
    atoll_files_chown(engine_of(c), sandbox_of(c), ATOLL_E2B_VOLUME_USER, c->file.path, uid, gid,
                      atoll_steps_done, &c->steps);
}

static void reply(void *arg, const struct atoll_am_entry *entry, const struct atoll_error *error)
{
    struct change *c = arg;

    if (error)
        atoll_e2b_volume_file_fail(&c->file, error);
    else
        atoll_e2b_volume_file_reply(&c->file, c->status, entry);
}

static void changed(void *arg, const struct atoll_error *error)
{
    struct change *c = arg;

    if (error)
        atoll_e2b_volume_file_fail(&c->file, error);
    else
        atoll_files_stat(engine_of(c), sandbox_of(c), ATOLL_E2B_VOLUME_USER, c->file.path, reply,
                         c);
}

static void run(struct change *c, const struct atoll_step *steps, size_t count)
{
    c->steps = (struct atoll_steps){.steps = steps, .count = count, .arg = c, .done = changed};
    atoll_steps_start(&c->steps);
}

/* An owner before the mode: a change of the owner removes the set-user-id bit. */
static const struct atoll_step update_steps[] = {
    {"setting the owner", set_owner, NULL},
    {"setting the mode", set_mode, NULL},
};

static void update(struct atoll_e2b_volume_file *f)
{
    run(ATOLL_CONTAINER_OF(f, struct change, file), update_steps, ATOLL_ARRAY_LEN(update_steps));
}

#define AT(member) offsetof(struct change, member)
static const struct atoll_field update_fields[] = {
    {"uid", ATOLL_FIELD_U64, AT(uid), 0, ID_MAX, NULL, 0},
    {"gid", ATOLL_FIELD_U64, AT(gid), 0, ID_MAX, NULL, 0},
    {"mode", ATOLL_FIELD_U64, AT(mode), 0, 07777, NULL, 0},
    ATOLL_FIELDS_TOLERANT,
    {0},
};
#undef AT

void atoll_e2b_volume_update(struct atoll_api_call *call, const uint8_t *bytes, size_t n)
{
    struct change *c = change_new(200);
    struct atoll_error error;
    struct atoll_body body;

    if (atoll_e2b_decode(&body, bytes, n, update_fields, c, &error) < 0) {
        free(c);
        atoll_api_fail(call, &error);
        return;
    }
    atoll_body_done(&body);
    atoll_e2b_volume_enter(call, &c->file, update);
}

/* Directories. */

static void on_entry(void *arg, const struct atoll_am_entry *entry ATOLL_UNUSED,
                     const struct atoll_error *error)
{
    struct change *c = arg;

    atoll_steps_done(&c->steps, error);
}

/* With `force` a directory that exists stays as it is. */
static void looked_for_dir(void *arg, const struct atoll_am_entry *entry,
                           const struct atoll_error *error)
{
    struct change *c = arg;

    c->exists = c->force && !error && entry->type == ATOLL_ENTRY_DIRECTORY;
    if (c->exists)
        atoll_steps_done(&c->steps, NULL);
    else
        atoll_files_mkdir_as(engine_of(c), sandbox_of(c), ATOLL_E2B_VOLUME_USER, c->file.path, 0,
                             c->force, on_entry, c);
}

static void make_dir(void *arg)
{
    struct change *c = arg;

    atoll_files_stat(engine_of(c), sandbox_of(c), ATOLL_E2B_VOLUME_USER, c->file.path,
                     looked_for_dir, c);
}

static const struct atoll_step mkdir_steps[] = {
    {"making the directory", make_dir, NULL},
    {"setting the owner", set_owner, NULL},
    {"setting the mode", set_mode, NULL},
};

static void mkdir_next(struct atoll_e2b_volume_file *f)
{
    run(ATOLL_CONTAINER_OF(f, struct change, file), mkdir_steps, ATOLL_ARRAY_LEN(mkdir_steps));
}

static void start(struct atoll_api_call *call, void (*next)(struct atoll_e2b_volume_file *file))
{
    struct change *c = change_new(201);
    struct atoll_error error;

    if (take_query(call, c, &error) < 0) {
        free(c);
        atoll_api_fail(call, &error);
    } else {
        atoll_e2b_volume_enter(call, &c->file, next);
    }
}

void atoll_e2b_volume_mkdir(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                            size_t n ATOLL_UNUSED)
{
    start(call, mkdir_next);
}

/* Files. */

static void looked_for_file(void *arg, const struct atoll_am_entry *entry,
                            const struct atoll_error *error)
{
    struct change *c = arg;
    struct atoll_error err;

    if (!error && (!c->force || entry->type == ATOLL_ENTRY_DIRECTORY)) {
        (void)atoll_fail(&err, ATOLL_ERR_ALREADY_EXISTS, EEXIST, "%s already exists",
                         atoll_volume_shown(c->file.path));
        atoll_steps_done(&c->steps, &err);
        return;
    }
    atoll_steps_done(&c->steps, error && error->kind != ATOLL_ERR_NOT_FOUND ? error : NULL);
}

static void check_file(void *arg)
{
    struct change *c = arg;

    atoll_files_stat(engine_of(c), sandbox_of(c), ATOLL_E2B_VOLUME_USER, c->file.path,
                     looked_for_file, c);
}

/* An upload would make the directory. */
static void check_parent(void *arg)
{
    struct change *c = arg;
    char parent[sizeof(c->file.path)];

    (void)snprintf(parent, sizeof(parent), "%s", c->file.path);
    *strrchr(parent, '/') = '\0';
    atoll_files_stat(engine_of(c), sandbox_of(c), ATOLL_E2B_VOLUME_USER, parent, on_entry, c);
}

static void receive(void *arg)
{
    struct change *c = arg;

    atoll_file_receive(c->file.call,
                       &(struct atoll_file_receive_request){.sandbox_id = sandbox_of(c),
                                                            .user = ATOLL_E2B_VOLUME_USER,
                                                            .path = c->file.path},
                       on_entry, c);
}

static const struct atoll_step write_steps[] = {
    {"looking for the file", check_file, NULL}, {"looking for its directory", check_parent, NULL},
    {"writing the file", receive, NULL},        {"setting the owner", set_owner, NULL},
    {"setting the mode", set_mode, NULL},
};

static void write_next(struct atoll_e2b_volume_file *f)
{
    run(ATOLL_CONTAINER_OF(f, struct change, file), write_steps, ATOLL_ARRAY_LEN(write_steps));
}

void atoll_e2b_volume_write(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                            size_t n ATOLL_UNUSED)
{
    start(call, write_next);
}
