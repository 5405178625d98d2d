#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include "base/fd.h"
#include "base/switches.h"
#include "base/text.h"
#include "engine/engine_internal.h"

/*
 * The environment of a persistent sandbox. Other sandboxes keep it in their agent's memory (see
 * atoll_sandbox_tell_agent()), which a stop ends. So it is stored in a file beside the disk,
 * disks/<id>.env, that only the daemon's user can read. The file contains secrets in clear text and
 * is removed with the sandbox.
 */

/* A sandbox that is recreated needs it as well as one that is started again. */
static bool is_kept(const struct atoll_sandbox *s)
{
    return s->options.lifetime.persistent || s->options.recreate;
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

int atoll_env_save(const struct atoll_sandbox *s, struct atoll_error *err)
{
    struct atoll_buf bytes;
    int r;

    if (!is_kept(s) || !s->options.env)
        return 0;
    atoll_buf_init(&bytes, ATOLL_AGENT_DATA_MAX);
    r = atoll_strings_join(&bytes, s->options.env);
    if (r < 0) {
        atoll_buf_done(&bytes);
        return atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, -r,
                          "the environment is larger than %d KiB", ATOLL_AGENT_DATA_MAX / 1024);
    }
    r = write_file(s, &bytes);
    atoll_buf_done(&bytes);
    if (r == 0)
        return 0;
    atoll_env_drop(s);
    return atoll_fail_errno(err, -r, "keep the environment");
}

int atoll_env_load(struct atoll_sandbox *s, struct atoll_error *err)
{
    ATOLL_AUTOFREE uint8_t *bytes = NULL;
    ATOLL_AUTOCLOSE int fd = ATOLL_NO_FD;
    char name[64];
    struct stat st;
    int r;

    r = atoll_fault("engine.env_load");
    if (r != 0)
        return atoll_fail_errno(err, r, "open the kept environment");
    name_of(s->spec.id, name);
    fd = openat(s->engine->state_fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT)
        return 0; /* no environment */
    if (fd < 0 || fstat(fd, &st) < 0 || st.st_size > ATOLL_AGENT_DATA_MAX)
        return atoll_fail_errno(err, fd < 0 ? errno : EFBIG, "open the kept environment");
    bytes = malloc((size_t)st.st_size + 1);
    r = bytes ? atoll_fd_read_all(fd, bytes, (size_t)st.st_size) : -ENOMEM;
    if (r == 0) {
        atoll_options_set_strings(&s->options.env, atoll_strings_split(bytes, (size_t)st.st_size));
        r = s->options.env ? 0 : -EBADMSG;
    }
    return r < 0 ? atoll_fail_errno(err, -r, "read the kept environment") : 0;
}

void atoll_env_drop(const struct atoll_sandbox *s)
{
    char name[64];

    if (!is_kept(s))
        return;
    name_of(s->spec.id, name);
    (void)unlinkat(s->engine->state_fd, name, 0);
}

void atoll_env_sweep(struct atoll_engine *engine)
{
    int fd = openat(engine->state_fd, "disks", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    struct dirent *entry;

    if (fd >= 0 && !dir)
        (void)close(fd);
    while (dir && (entry = readdir(dir)) != NULL) {
        char id[ATOLL_ID_LEN + 1] = "";
        if (strlen(entry->d_name) != ATOLL_ID_LEN + 4 ||
            strcmp(entry->d_name + ATOLL_ID_LEN, ".env") != 0)
            continue;
        memcpy(id, entry->d_name, ATOLL_ID_LEN);
        if (!atoll_map_get(&engine->sandboxes, id))
            (void)unlinkat(dirfd(dir), entry->d_name, 0);
    }
    if (dir)
        (void)closedir(dir);
}
