/*
 * Extended attributes of the "user." namespace only: other namespaces hold capabilities and labels.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/xattr.h>
#include "agent/agent_internal.h"

#define PREFIX "user."
/* The kernel's own limits: XATTR_SIZE_MAX and XATTR_LIST_MAX. */
#define VALUE_MAX (64 * 1024)
#define LIST_MAX (64 * 1024)
#define NAME_MAX_BYTES 255
_Static_assert(LIST_MAX + VALUE_MAX <= ATOLL_AGENT_SCRATCH, "names and one value fit");

/* The file of a request; the agent acts as the request's user while it exists. */
struct target {
    struct atoll_agent_path path;
    int fd;        /* owned, O_PATH */
    char link[32]; /* its /proc path, because xattr calls do not accept O_PATH descriptors */
};

static void target_done(struct target *t)
{
    if (t->fd >= 0)
        (void)close(t->fd);
    atoll_agent_path_done(&t->path);
}

static int target_open(struct target *t, struct atoll_agent *a, const struct atoll_am_xattr *msg,
                       bool with_name, struct atoll_error *err)
{
    int r;

    t->fd = ATOLL_NO_FD;
    r = atoll_agent_path_init(&t->path, a, msg->user, msg->path, err);
    if (r < 0)
        return r;
    if (with_name && (strncmp(msg->name, PREFIX, strlen(PREFIX)) != 0 ||
                      msg->name[strlen(PREFIX)] == '\0' || strlen(msg->name) > NAME_MAX_BYTES))
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "attribute names begin with \"" PREFIX "\" and have at most %d bytes",
                          NAME_MAX_BYTES);
    t->fd = atoll_agent_path_open(AT_FDCWD, t->path.text, O_PATH);
    if (t->fd < 0)
        return atoll_agent_path_fail(err, -t->fd, t->path.text);
    (void)atoll_agent_path_of_fd(t->fd, t->link);
    return 0;
}

static int fail(struct atoll_error *err, int errnum, const struct target *t, const char *name)
{
    if (errnum == ENODATA)
        return atoll_fail(err, ATOLL_ERR_NOT_FOUND, ENODATA, "%.200s has no attribute %.100s",
                          t->path.text, name);
    return atoll_agent_path_fail(err, errnum, t->path.text);
}

int atoll_agent_on_xattr_get(struct atoll_agent *a, uint32_t request, const void *message,
                             struct atoll_error *err)
{
    uint8_t *value = atoll_agent_scratch;
    const struct atoll_am_xattr *msg = message;
    struct target t ATOLL_CLEANUP(target_done);
    struct atoll_am_data reply;
    ssize_t n;
    int r = target_open(&t, a, msg, true, err);

    if (r < 0)
        return r;
    n = getxattr(t.link, msg->name, value, VALUE_MAX);
    if (n < 0)
        return fail(err, errno, &t, msg->name);
    reply.data = (struct atoll_bytes){value, (size_t)n};
    atoll_agent_reply(a, request, &atoll_am_data_desc, &reply);
    return ATOLL_AGENT_ANSWERED;
}

int atoll_agent_on_xattr_set(struct atoll_agent *a, uint32_t request, const void *message,
                             struct atoll_error *err)
{
    const struct atoll_am_xattr *msg = message;
    struct target t ATOLL_CLEANUP(target_done);
    int r = target_open(&t, a, msg, true, err);

    (void)request;
    if (r < 0)
        return r;
    if (setxattr(t.link, msg->name, msg->value.data, msg->value.len, 0) < 0)
        return errno == E2BIG || errno == ERANGE
                   ? atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, E2BIG,
                                "the value of an attribute has at most %d bytes", VALUE_MAX)
                   : fail(err, errno, &t, msg->name);
    return 0;
}

int atoll_agent_on_xattr_list(struct atoll_agent *a, uint32_t request, const void *message,
                              struct atoll_error *err)
{
    char *names = (char *)atoll_agent_scratch;
    uint8_t *value = atoll_agent_scratch + LIST_MAX;
    const struct atoll_am_xattr *msg = message;
    struct target t ATOLL_CLEANUP(target_done);
    ssize_t n;
    int r = target_open(&t, a, msg, false, err);

    if (r < 0)
        return r;
    n = listxattr(t.link, names, LIST_MAX);
    if (n < 0)
        return fail(err, errno, &t, "");
    for (const char *name = names; name < names + n; name += strlen(name) + 1) {
        struct atoll_am_xattr part = {.path = t.path.text, .name = name};
        ssize_t size;
        if (strncmp(name, PREFIX, strlen(PREFIX)) != 0)
            continue;
        if (!atoll_agent_conn_has_room(a))
            return atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, ENOBUFS,
                              "%.300s has too many attributes to list", t.path.text);
        size = getxattr(t.link, name, value, VALUE_MAX);
        if (size < 0)
            continue; /* removed meanwhile */
        part.value = (struct atoll_bytes){value, (size_t)size};
        atoll_agent_part(a, request, &atoll_am_xattr_desc, &part);
    }
    return 0;
}

int atoll_agent_on_xattr_remove(struct atoll_agent *a, uint32_t request, const void *message,
                                struct atoll_error *err)
{
    const struct atoll_am_xattr *msg = message;
    struct target t ATOLL_CLEANUP(target_done);
    int r = target_open(&t, a, msg, true, err);

    (void)request;
    if (r < 0)
        return r;
    if (removexattr(t.link, msg->name) < 0)
        return fail(err, errno, &t, msg->name);
    return 0;
}
