#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include "base/buf.h"
#include "base/text.h"
#include "copy/below.h"
#include "copy/copy.h"

/* passwd and group of the root: NAME:password:ID[:GROUP…] on each line. */
#define ACCOUNTS_MAX ((size_t)4 * 1024 * 1024)
#define FIELDS 4

static int read_all(int root, const char *path, struct atoll_buf *out)
{
    ATOLL_AUTOCLOSE int fd = atoll_below_open(root, path, O_RDONLY | O_NONBLOCK);

    if (fd < 0)
        return fd;
    for (;;) {
        uint8_t *tail;
        ssize_t n;
        int r = atoll_buf_reserve(out, (size_t)16 * 1024, &tail);

        if (r < 0)
            return r;
        n = read(fd, tail, (size_t)16 * 1024);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? -errno : 0;
        atoll_buf_commit(out, (size_t)n);
    }
}

/* Cuts a line at ":"; returns how many fields there are. */
static size_t split(char *line, char **fields)
{
    size_t n = 0;
    char *rest = line;

    while (n < FIELDS && rest)
        fields[n++] = strsep(&rest, ":");
    return n;
}

/* The numbers of a name: of passwd the user's and the group's, of group only the first. */
static int find(int root, const char *path, const char *name, uint64_t *ret_id, uint64_t *ret_group)
{
    ATOLL_CLEANUP(atoll_buf_done) struct atoll_buf text;
    char *rest, *line;
    int r;

    atoll_buf_init(&text, ACCOUNTS_MAX);
    r = read_all(root, path, &text);
    if (r < 0)
        return r;
    rest = (char *)(uintptr_t)atoll_buf_str(&text);
    while ((line = strsep(&rest, "\n"))) {
        char *fields[FIELDS];
        size_t n = split(line, fields);

        if (n < 3 || strcmp(fields[0], name) != 0 ||
            atoll_text_u64(fields[2], 0, UINT32_MAX - 1, ret_id) < 0)
            continue;
        if (!ret_group ||
            (n == FIELDS && atoll_text_u64(fields[3], 0, UINT32_MAX - 1, ret_group) == 0))
            return 0;
    }
    return -ENOENT;
}

static int not_there(struct atoll_error *err, const char *what, const char *name)
{
    return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                      "--chown: the image has no %s %.100s; use its number, or add it before", what,
                      name);
}

int atoll_copy_owner(int root, const char *text, uid_t *ret_uid, gid_t *ret_gid,
                     struct atoll_error *err)
{
    ATOLL_AUTOFREE char *user = strdup(text);
    uint64_t uid = 0, gid = 0;
    char *group;

    if (!user)
        return atoll_fail_errno(err, ENOMEM, "--chown");
    group = strchr(user, ':');
    if (group)
        *group++ = '\0';
    if (*user && atoll_text_u64(user, 0, UINT32_MAX - 1, &uid) == 0)
        gid = uid;
    else if (*user && find(root, "etc/passwd", user, &uid, &gid) < 0)
        return not_there(err, "user", user);
    if (group && *group && atoll_text_u64(group, 0, UINT32_MAX - 1, &gid) < 0 &&
        find(root, "etc/group", group, &gid, NULL) < 0)
        return not_there(err, "group", group);
    *ret_uid = (uid_t)uid;
    *ret_gid = (gid_t)gid;
    return 0;
}
