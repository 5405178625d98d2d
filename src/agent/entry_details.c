/*
 * Details of an entry beyond stat: its extended attributes, and the final target of a link. Best
 * effort: an entry is listed without them if they cannot be read.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/xattr.h>
#include "agent/agent_internal.h"

#define PREFIX "user."
#define NAMES_MAX ((size_t)64 * 1024)
/* Names and values of one entry together; a frame has room for them and for two paths. */
#define ATTRIBUTES_MAX ((size_t)16 * 1024)
_Static_assert(NAMES_MAX + ATTRIBUTES_MAX + ATOLL_AGENT_PATH_MAX <= ATOLL_AGENT_SCRATCH,
               "names, attributes and a path fit");

/* The scratch buffer in three parts. */
static char *const names = (char *)atoll_agent_scratch;
static char *const pairs = (char *)atoll_agent_scratch + NAMES_MAX;
static char *const resolved = (char *)atoll_agent_scratch + NAMES_MAX + ATTRIBUTES_MAX;

/* Adds "name NUL value NUL" after the first `len` bytes; returns the new length. */
static size_t add_pair(const char *link, const char *name, size_t len)
{
    size_t n = strlen(name) + 1;
    ssize_t size;

    if (len + n + 1 >= ATTRIBUTES_MAX) /* without room getxattr only returns the size */
        return len;
    memcpy(pairs + len, name, n);
    size = getxattr(link, name, pairs + len + n, ATTRIBUTES_MAX - len - n - 1);
    if (size < 0 || memchr(pairs + len + n, '\0', (size_t)size))
        return len;
    pairs[len + n + (size_t)size] = '\0';
    return len + n + (size_t)size + 1;
}

static void add_attributes(struct atoll_agent_entry *e, const char *link, const char *prefix)
{
    ssize_t n =
        strncmp(prefix, PREFIX, strlen(PREFIX)) == 0 ? listxattr(link, names, NAMES_MAX) : 0;
    size_t len = 0;

    for (const char *name = names; name < names + n; name += strlen(name) + 1)
        if (strncmp(name, prefix, strlen(prefix)) == 0)
            len = add_pair(link, name, len);
    e->msg.attributes = (struct atoll_bytes){(const uint8_t *)pairs, len};
}

static void add_resolved(struct atoll_agent_entry *e, int fd, const char *link)
{
    ssize_t n = readlink(link, resolved, ATOLL_AGENT_PATH_MAX - 1);
    struct stat st;

    if (n < 0 || fstat(fd, &st) < 0)
        return;
    resolved[n] = '\0';
    e->msg.resolved = resolved;
    e->msg.resolved_type = atoll_agent_entry_type(st.st_mode);
    e->msg.resolved_mode = st.st_mode & 07777;
}

void atoll_agent_entry_add_details(struct atoll_agent_entry *e, int dir_fd, const char *name,
                                   const char *attributes)
{
    bool is_link = e->msg.type == ATOLL_ENTRY_SYMLINK;
    /* A link is opened again to follow it, by its path if dir_fd is the link itself. */
    const char *path = is_link && !*name ? e->msg.path : name;
    ATOLL_AUTOCLOSE int opened =
        *path ? atoll_agent_path_open(dir_fd, path, O_PATH | (is_link ? 0 : O_NOFOLLOW))
              : ATOLL_NO_FD;
    int fd = *path ? opened : dir_fd;
    char link[32];

    if (fd < 0)
        return;
    (void)atoll_agent_path_of_fd(fd, link);
    add_attributes(e, link, attributes);
    if (is_link)
        add_resolved(e, fd, link);
}
