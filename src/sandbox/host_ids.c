/*
 * Programs in PATH, small files, and the ids that an ordinary user may map: /etc/subuid and
 * /etc/subgid hold "name-or-uid:first:count" lines, newuidmap and newgidmap apply them.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include "base/fd.h"
#include "base/text.h"
#include "sandbox/host_internal.h"

#define SUBID_FILE_MAX (256 * 1024)

int atoll_host_read(const char *path, char *buf, size_t cap)
{
    int n = atoll_fd_read_file(AT_FDCWD, path, buf, cap);

    if (n > 0 && buf[n - 1] == '\n')
        buf[--n] = '\0';
    return n;
}

int atoll_host_read_sysctl(const char *name, long *ret_value)
{
    char path[96] = "/proc/sys/", text[32], *end;
    size_t at = strlen(path);
    int r;

    for (; *name && at + 1 < sizeof(path); name++)
        path[at++] = *name == '.' ? '/' : *name;
    path[at] = '\0';
    r = atoll_host_read(path, text, sizeof(text));
    if (r < 0)
        return r;
    *ret_value = strtol(text, &end, 10);
    return end == text ? -EINVAL : 0;
}

static bool is_program(const char *dir, size_t n, const char *name)
{
    char path[512];
    struct stat st;

    if (n == 0 ||
        (size_t)snprintf(path, sizeof(path), "%.*s/%s", (int)n, dir, name) >= sizeof(path))
        return false;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0;
}

bool atoll_host_has_program(const char *name)
{
    /* Ordinary users seldom have sbin in PATH, but can run its programs. */
    const char *lists[] = {getenv("PATH"), "/usr/local/sbin:/usr/sbin:/sbin"};

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(lists); i++) {
        for (const char *p = lists[i]; p && *p;) {
            size_t n = strcspn(p, ":");
            if (is_program(p, n, name))
                return true;
            p += n + (p[n] == ':');
        }
    }
    return false;
}

/* Parses "name:first:count" and keeps it if it is this user's longest range so far. */
static void note_range(char *line, const char *name, const char *uid, uint32_t *first,
                       uint32_t *count)
{
    char *save = NULL;
    const char *who = strtok_r(line, ":", &save);
    const char *from = who ? strtok_r(NULL, ":", &save) : NULL;
    const char *len = from ? strtok_r(NULL, ":", &save) : NULL;
    uint64_t a, n;

    if (!len || (strcmp(who, name) != 0 && strcmp(who, uid) != 0))
        return;
    if (atoll_text_u64(from, 1, UINT32_MAX, &a) < 0 ||
        atoll_text_u64(len, 1, UINT32_MAX - a, &n) < 0)
        return;
    if (n > *count) {
        *first = (uint32_t)a;
        *count = (uint32_t)n;
    }
}

static void find_ranges(const char *path, const char *name, const char *uid, uint32_t *first,
                        uint32_t *count)
{
    ATOLL_AUTOFREE char *text = malloc(SUBID_FILE_MAX);
    char *save = NULL;

    if (!text || atoll_fd_read_file(AT_FDCWD, path, text, SUBID_FILE_MAX) < 0)
        return;
    for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
        note_range(line, name, uid, first, count);
}

/* The name of our uid in /etc/passwd. getpwuid() would load the modules named in nsswitch.conf. */
static void find_user_name(char *out, size_t cap, const char *uid)
{
    ATOLL_AUTOFREE char *text = malloc(SUBID_FILE_MAX);
    char *save = NULL;

    out[0] = '\0';
    if (!text || atoll_fd_read_file(AT_FDCWD, "/etc/passwd", text, SUBID_FILE_MAX) < 0)
        return;
    for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        char *rest = NULL;
        const char *name = strtok_r(line, ":", &rest);
        const char *password = name ? strtok_r(NULL, ":", &rest) : NULL;
        const char *id = password ? strtok_r(NULL, ":", &rest) : NULL;
        if (id && strcmp(id, uid) == 0) {
            if (atoll_text_copy(out, cap, name) < 0)
                out[0] = '\0';
            return;
        }
    }
}

void atoll_host_find_subids(struct atoll_host_caps *caps)
{
    char uid[16], name[64];

    (void)snprintf(uid, sizeof(uid), "%u", (unsigned)geteuid());
    find_user_name(name, sizeof(name), uid);
    find_ranges("/etc/subuid", name, uid, &caps->subuid, &caps->subuids);
    find_ranges("/etc/subgid", name, uid, &caps->subgid, &caps->subgids);
    caps->subids = caps->subuids > 0 && caps->subgids > 0 && atoll_host_has_program("newuidmap") &&
                   atoll_host_has_program("newgidmap");
}
