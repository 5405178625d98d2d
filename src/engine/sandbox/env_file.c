#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include "base/fd.h"
#include "base/log.h"
#include "base/switches.h"
#include "base/text.h"
#include "engine/engine_internal.h"
#include "store/seal.h"

/*
 * The environment of a persistent sandbox. Other sandboxes keep it in their agent's memory (see
 * atoll_sandbox_tell_agent()), which a stop ends. So it is stored in a file beside the disk,
 * disks/<id>.env, that only the daemon's user can read. It contains secrets, so it is sealed
 * (store/seal.h); it is removed with the sandbox. Earlier versions stored it in clear text: such files
 * are read, and sealed when the daemon starts. During a restore every sandbox has such a file.
 */
#define FILE_MAX (ATOLL_AGENT_DATA_MAX + ATOLL_SEAL_EXTRA_BYTES)

/* A sandbox that is recreated needs it as well as one that is started again. */
static bool is_kept(const struct atoll_sandbox *s)
{
    return s->options.lifetime.persistent || s->options.recreate || s->keeps_env;
}

static void name_of(const char *id, char out[64])
{
    (void)snprintf(out, 64, "disks/%s.env", id);
}

static int write_file(const struct atoll_sandbox *s, const struct atoll_buf *bytes)
{
    ATOLL_AUTOCLOSE int fd = ATOLL_NO_FD;
    char name[64];
    int r;

    r = atoll_fault("engine.env_save");
    if (r != 0)
        return -r;
    name_of(s->spec.id, name);
    if (mkdirat(s->engine->state_fd, "disks", 0711) < 0 && errno != EEXIST)
        return -errno;
    fd = openat(s->engine->state_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                0600);
    if (fd < 0)
        return -errno;
    atoll_fault_die("engine.env_save.made");
    r = atoll_fd_write_all(fd, atoll_buf_head(bytes), atoll_buf_size(bytes));
    return r < 0 ? r : fsync(fd) < 0 ? -errno : 0;
}

static int seal(const struct atoll_engine *engine, const char *id, const void *plain, size_t n,
                struct atoll_buf *out, struct atoll_error *err)
{
    const struct atoll_seal_place place = {"sandbox environment", id};

    atoll_buf_init(out, FILE_MAX);
    return atoll_seal_write(atoll_store_seal(engine->config.store), &place, plain, n, out, err);
}

/* The sealed bytes of the file. */
static int seal_env(const struct atoll_sandbox *s, struct atoll_buf *ret, struct atoll_error *err)
{
    struct atoll_buf plain;
    int r;

    atoll_buf_init(&plain, ATOLL_AGENT_DATA_MAX);
    r = atoll_strings_join(&plain, s->options.env);
    if (r < 0)
        r = atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, -r,
                       "the environment is larger than %d KiB", ATOLL_AGENT_DATA_MAX / 1024);
    else
        r = seal(s->engine, s->spec.id, atoll_buf_head(&plain), atoll_buf_size(&plain), ret, err);
    atoll_buf_wipe(&plain);
    return r;
}

int atoll_env_save(const struct atoll_sandbox *s, struct atoll_error *err)
{
    struct atoll_buf sealed = {0};
    int r;

    if (!is_kept(s) || !s->options.env)
        return 0;
    r = seal_env(s, &sealed, err);
    if (r == 0 && (r = write_file(s, &sealed)) < 0) {
        atoll_env_drop(s);
        r = atoll_fail_errno(err, -r, "keep the environment");
    }
    atoll_buf_done(&sealed);
    return r;
}

int atoll_env_replace(const struct atoll_sandbox *s, struct atoll_error *err)
{
    struct atoll_buf sealed = {0};
    char name[64];
    int r;

    if (!is_kept(s) || !s->options.env)
        return 0;
    name_of(s->spec.id, name);
    r = seal_env(s, &sealed, err);
    if (r == 0) {
        r = atoll_fd_replace_file(s->engine->state_fd, name, atoll_buf_head(&sealed),
                                  atoll_buf_size(&sealed));
        if (r < 0)
            r = atoll_fail_errno(err, -r, "keep the environment");
    }
    atoll_buf_done(&sealed);
    return r;
}

int atoll_env_keep(struct atoll_sandbox *s, struct atoll_error *err)
{
    char name[64];
    int r;

    if (is_kept(s))
        return 0;
    name_of(s->spec.id, name);
    (void)unlinkat(s->engine->state_fd, name, 0); /* of a daemon that died */
    s->keeps_env = true;
    r = atoll_env_save(s, err);
    s->keeps_env = r == 0;
    return r;
}

void atoll_env_unkeep(struct atoll_sandbox *s)
{
    bool always = s->options.lifetime.persistent || s->options.recreate;

    if (s->keeps_env && !always)
        atoll_env_drop(s);
    s->keeps_env = false;
}

/* Reads a file below dir_fd; -ENOENT. */
static int read_file(int dir_fd, const char *name, struct atoll_buf *out)
{
    ATOLL_AUTOCLOSE int fd = ATOLL_NO_FD;
    uint8_t *tail;
    struct stat st;
    int r;

    atoll_buf_init(out, FILE_MAX);
    fd = openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0)
        return -errno;
    r = st.st_size > FILE_MAX ? -EFBIG : atoll_buf_reserve(out, (size_t)st.st_size, &tail);
    if (r == 0 && st.st_size > 0)
        r = atoll_fd_read_all(fd, tail, (size_t)st.st_size);
    if (r == 0)
        atoll_buf_commit(out, (size_t)st.st_size);
    return r;
}

/* Takes the strings from the bytes of the file. */
static int take(struct atoll_sandbox *s, const struct atoll_buf *bytes, struct atoll_error *err)
{
    const struct atoll_seal_place place = {"sandbox environment", s->spec.id};
    const struct atoll_buf *from = bytes;
    struct atoll_buf plain;
    int r = 0;

    atoll_buf_init(&plain, FILE_MAX);
    if (atoll_seal_is_sealed(atoll_buf_head(bytes), atoll_buf_size(bytes))) {
        r = atoll_seal_read(atoll_store_seal(s->engine->config.store), &place,
                            atoll_buf_head(bytes), atoll_buf_size(bytes), &plain, err);
        from = &plain;
    }
    if (r == 0) {
        atoll_options_set_strings(&s->options.env,
                                  atoll_strings_split(atoll_buf_head(from), atoll_buf_size(from)));
        if (!s->options.env)
            r = atoll_fail_errno(err, EBADMSG, "split it");
    }
    atoll_buf_wipe(&plain);
    return r < 0 ? atoll_wrap(err, "read the kept environment") : 0;
}

int atoll_env_load(struct atoll_sandbox *s, struct atoll_error *err)
{
    struct atoll_buf bytes;
    char name[64];
    int r = atoll_fault("engine.env_load");

    if (r != 0)
        return atoll_fail_errno(err, r, "open the kept environment");
    name_of(s->spec.id, name);
    r = read_file(s->engine->state_fd, name, &bytes);
    if (r == 0)
        r = take(s, &bytes, err);
    else if (r == -ENOENT)
        r = 0; /* no environment */
    else
        r = atoll_fail_errno(err, -r, "open the kept environment");
    atoll_buf_wipe(&bytes);
    return r;
}

void atoll_env_drop(const struct atoll_sandbox *s)
{
    char name[64];

    if (!is_kept(s))
        return;
    name_of(s->spec.id, name);
    (void)unlinkat(s->engine->state_fd, name, 0);
}

/* Seals a file of an earlier version. On failure it stays as it is, and is read all the same. */
static void seal_file(const struct atoll_engine *engine, int dir_fd, const char *name,
                      const char *id)
{
    struct atoll_buf plain, sealed;
    struct atoll_error err;
    int r = read_file(dir_fd, name, &plain);

    if (r == 0 && !atoll_seal_is_sealed(atoll_buf_head(&plain), atoll_buf_size(&plain))) {
        r = seal(engine, id, atoll_buf_head(&plain), atoll_buf_size(&plain), &sealed, &err);
        if (r == 0)
            r = atoll_fd_replace_file(dir_fd, name, atoll_buf_head(&sealed),
                                      atoll_buf_size(&sealed));
        atoll_buf_done(&sealed);
    }
    atoll_buf_wipe(&plain);
    if (r < 0)
        atoll_log(ATOLL_LOG_ERROR, "environment not sealed", "sandbox", id, "error", strerror(-r),
                  NULL);
}

static void sweep_file(struct atoll_engine *engine, int dir_fd, const char *name)
{
    char id[ATOLL_ID_LEN + 1] = "";
    const struct atoll_sandbox *s;

    if (strnlen(name, ATOLL_ID_LEN) < ATOLL_ID_LEN)
        return;
    memcpy(id, name, ATOLL_ID_LEN);
    s = atoll_map_get(&engine->sandboxes, id);
    if (strcmp(name + ATOLL_ID_LEN, ".env.new") == 0) /* of seal_file() in a daemon that died */
        (void)unlinkat(dir_fd, name, 0);
    else if (strcmp(name + ATOLL_ID_LEN, ".env") != 0)
        return;
    else if (s && is_kept(s))
        seal_file(engine, dir_fd, name, id);
    else
        (void)unlinkat(dir_fd, name, 0);
}

void atoll_env_sweep(struct atoll_engine *engine)
{
    int fd = openat(engine->state_fd, "disks", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    struct dirent *entry;

    if (fd >= 0 && !dir)
        (void)close(fd);
    while (dir && (entry = readdir(dir)) != NULL)
        sweep_file(engine, dirfd(dir), entry->d_name);
    if (dir)
        (void)closedir(dir);
}
