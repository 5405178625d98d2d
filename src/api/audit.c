#include "api/audit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include "api/json_out.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"

#define FILE_NAME "audit.log"
#define LINE_MAX_BYTES ((size_t)4096)
#define COMPLAIN_EVERY_MS 60000
#define DISK_PART 64 /* 1/64 of the file system, where that is less */

struct atoll_audit {
    int state_fd; /* borrowed */
    int fd;
    uint64_t size_bytes, max_bytes;
    int64_t complained_ms;
};

static int open_file(struct atoll_audit *audit)
{
    struct stat st;

    audit->fd = openat(audit->state_fd, FILE_NAME,
                       O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
    if (audit->fd < 0 || fstat(audit->fd, &st) < 0)
        return -errno;
    if (!S_ISREG(st.st_mode))
        return -EINVAL;
    /* An older daemon or a permissive umask left other permissions. */
    if ((st.st_mode & 07777) != 0600 && fchmod(audit->fd, 0600) < 0)
        return -errno;
    audit->size_bytes = (uint64_t)st.st_size;
    return 0;
}

/* The maximum of one file; audit.log and audit.log.1 can both reach it. */
static uint64_t default_max(int state_fd)
{
    struct statvfs fs;

    if (fstatvfs(state_fd, &fs) < 0)
        return ATOLL_AUDIT_MAX_BYTES;
    return ATOLL_MIN(ATOLL_AUDIT_MAX_BYTES, (uint64_t)fs.f_blocks * fs.f_frsize / DISK_PART);
}

void atoll_audit_sizes(const struct atoll_audit *audit, uint64_t *ret_bytes,
                       uint64_t *ret_max_bytes)
{
    struct stat st;

    *ret_bytes = audit->size_bytes;
    if (fstatat(audit->state_fd, FILE_NAME ".1", &st, AT_SYMLINK_NOFOLLOW) == 0)
        *ret_bytes += (uint64_t)st.st_size;
    *ret_max_bytes = 2 * audit->max_bytes;
}

int atoll_audit_open(int state_fd, uint64_t max_bytes, struct atoll_audit **ret,
                     struct atoll_error *err)
{
    struct atoll_audit *audit = calloc(1, sizeof(*audit));
    int r;

    if (!audit)
        return atoll_fail_errno(err, ENOMEM, "audit log");
    audit->state_fd = state_fd;
    audit->max_bytes = max_bytes ? max_bytes : default_max(state_fd);
    r = open_file(audit);
    if (r < 0) {
        (void)atoll_audit_close(audit);
        return atoll_fail_errno(err, -r, "opening the file " FILE_NAME);
    }
    *ret = audit;
    return 0;
}

struct atoll_audit *atoll_audit_close(struct atoll_audit *audit)
{
    if (!audit)
        return NULL;
    if (audit->fd >= 0)
        (void)close(audit->fd);
    free(audit);
    return NULL;
}

static int rotate(struct atoll_audit *audit)
{
    int old = audit->fd, r;

    if (renameat(audit->state_fd, FILE_NAME, audit->state_fd, FILE_NAME ".1") < 0 &&
        errno != ENOENT)
        return -errno;
    r = open_file(audit);
    if (r < 0) {
        if (audit->fd >= 0)
            (void)close(audit->fd);
        audit->fd = old; /* keep writing to the old file rather than lose entries */
        return r;
    }
    (void)close(old);
    return 0;
}

/* Omits the member when the text is empty. */
static void add_text(struct atoll_json_out *out, const char *key, const char *text)
{
    if (*text)
        atoll_json_text(out, key, text);
}

static int make_line(struct atoll_buf *buf, const struct atoll_audit_entry *e)
{
    struct atoll_json_out out;

    atoll_json_out_init(&out, buf);
    atoll_json_open(&out, NULL, '{');
    atoll_json_time(&out, "time", atoll_clock_unix_ms());
    atoll_json_text(&out, "tenant", e->tenant);
    add_text(&out, "key", e->key_id);
    if (e->uid >= 0)
        atoll_json_i64(&out, "uid", e->uid);
    add_text(&out, "peer", e->peer);
    atoll_json_text(&out, "method", e->method);
    atoll_json_text(&out, "route", e->route);
    add_text(&out, "sandbox", e->sandbox_id);
    add_text(&out, "exec", e->exec_id);
    add_text(&out, "name", e->name);
    atoll_json_i64(&out, "status", e->status);
    atoll_json_text(&out, "request_id", e->request_id);
    atoll_json_close(&out, '}');
    return out.error < 0 ? out.error : atoll_buf_append(buf, "\n", 1);
}

void atoll_audit_write(struct atoll_audit *audit, const struct atoll_audit_entry *entry)
{
    struct atoll_buf buf;
    int64_t now = atoll_clock_ms();
    int r;

    atoll_buf_init(&buf, LINE_MAX_BYTES);
    r = make_line(&buf, entry);
    if (r == 0 && audit->size_bytes > 0 &&
        audit->size_bytes + atoll_buf_size(&buf) > audit->max_bytes)
        r = rotate(audit);
    if (r == 0)
        r = atoll_fd_write_all(audit->fd, atoll_buf_head(&buf), atoll_buf_size(&buf));
    if (r == 0)
        audit->size_bytes += atoll_buf_size(&buf);
    atoll_buf_done(&buf);
    if (r == 0 || (audit->complained_ms && now - audit->complained_ms < COMPLAIN_EVERY_MS))
        return;
    audit->complained_ms = now;
    atoll_log(ATOLL_LOG_ERROR, "audit log not written", "error", strerror(-r), "request_id",
              entry->request_id, NULL);
}
