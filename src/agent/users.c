/*
 * Users and groups of the sandbox, from its /etc/passwd and /etc/group. The tenant may write these
 * files, so they are parsed here, with bounds: the C library would also connect to name service
 * sockets that a tenant could create, and would block on a FIFO.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "agent/agent_internal.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/text.h"

#define PASSWD "/etc/passwd"
#define GROUP "/etc/group"
#define SHELL_DEFAULT "/bin/sh"
#define FILE_MAX_BYTES (1024 * 1024)
/* File times are coarse: a file modified this recently may change again with the same time. */
#define YOUNG_MS 1000

static bool same_file(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
           a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec &&
           a->st_ctim.tv_sec == b->st_ctim.tv_sec && a->st_ctim.tv_nsec == b->st_ctim.tv_nsec;
}

static char *read_text(const char *path, struct stat *st)
{
    ATOLL_AUTOCLOSE int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_NOCTTY | O_CLOEXEC);
    char *text;
    size_t len = 0;

    if (fd < 0 || fstat(fd, st) < 0 || !S_ISREG(st->st_mode) || st->st_size > FILE_MAX_BYTES)
        return NULL;
    text = malloc((size_t)st->st_size + 1);
    while (text && len < (size_t)st->st_size) {
        ssize_t r = read(fd, text + len, (size_t)st->st_size - len);
        if (r < 0 && errno == EINTR)
            continue;
        if (r <= 0)
            break;
        len += (size_t)r;
    }
    if (text)
        text[len] = '\0';
    return text;
}

/* The file's text, "" if there is no usable file. Borrowed until the next call. */
static const char *load(struct atoll_agent_textfile *file, const char *path)
{
    struct stat st;

    if (file->fresh && fstatat(AT_FDCWD, path, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
        same_file(&st, &file->seen))
        return file->text;
    free(file->text);
    file->fresh = false;
    file->text = read_text(path, &file->seen);
    if (!file->text)
        return "";
    file->fresh = atoll_clock_unix_ms() - (int64_t)file->seen.st_ctim.tv_sec * 1000 > YOUNG_MS;
    return file->text;
}

void atoll_agent_users_done(struct atoll_agent *a)
{
    free(ATOLL_TAKE_PTR(a->passwd.text));
    free(ATOLL_TAKE_PTR(a->group.text));
    a->passwd.fresh = a->group.fresh = false;
}

struct field {
    const char *p;
    size_t len;
};

#define PASSWD_FIELDS 7
#define GROUP_FIELDS 4

/* Splits the line at *text into `count` fields and advances *text. False at the end of the text;
 * missing fields are empty. */
static bool next_line(const char **text, struct field *fields, size_t count)
{
    const char *p = *text;
    const char *end;

    if (*p == '\0')
        return false;
    end = strchrnul(p, '\n');
    *text = *end ? end + 1 : end;
    for (size_t i = 0; i < count; i++) {
        const char *stop = memchr(p, ':', (size_t)(end - p));
        if (!stop)
            stop = end;
        fields[i] = (struct field){p, (size_t)(stop - p)};
        p = stop < end ? stop + 1 : end;
    }
    return true;
}

static bool field_is(const struct field *f, const char *text)
{
    return strlen(text) == f->len && memcmp(f->p, text, f->len) == 0;
}

static bool field_copy(const struct field *f, char *out, size_t cap)
{
    if (f->len == 0 || f->len >= cap)
        return false;
    memcpy(out, f->p, f->len);
    out[f->len] = '\0';
    return true;
}

/* Parses an id; never UINT32_MAX, which means "unchanged" to chown(2). */
static bool text_id(const char *text, uint32_t *ret_id)
{
    uint64_t value;

    if (atoll_text_u64(text, 0, UINT32_MAX - 1, &value) < 0)
        return false;
    *ret_id = (uint32_t)value;
    return true;
}

static bool field_id(const struct field *f, uint32_t *ret_id)
{
    char text[16];
    return field_copy(f, text, sizeof(text)) && text_id(text, ret_id);
}

/* Fills *user from the first line that has this name (or, name NULL, this uid). */
static bool find_passwd(struct atoll_agent *a, const char *name, uint32_t uid,
                        struct atoll_agent_user *user)
{
    const char *text = load(&a->passwd, PASSWD);
    struct field f[PASSWD_FIELDS];

    while (next_line(&text, f, PASSWD_FIELDS)) {
        uint32_t line_uid, line_gid;
        if (name ? !field_is(&f[0], name) : f[0].len == 0)
            continue;
        if (!field_id(&f[2], &line_uid) || !field_id(&f[3], &line_gid))
            continue;
        if ((!name && line_uid != uid) || !field_copy(&f[0], user->name, sizeof(user->name)))
            continue;
        user->uid = line_uid;
        user->gid = line_gid;
        if (!field_copy(&f[5], user->home, sizeof(user->home)) || user->home[0] != '/')
            (void)snprintf(user->home, sizeof(user->home), "/");
        if (!field_copy(&f[6], user->shell, sizeof(user->shell)) || user->shell[0] != '/')
            (void)snprintf(user->shell, sizeof(user->shell), SHELL_DEFAULT);
        return true;
    }
    return false;
}

static bool is_member(const struct field *members, const char *name)
{
    struct field rest = *members;

    while (rest.len > 0) {
        const char *comma = memchr(rest.p, ',', rest.len);
        struct field one = {rest.p, comma ? (size_t)(comma - rest.p) : rest.len};
        if (field_is(&one, name))
            return true;
        rest.p += one.len + (comma ? 1 : 0);
        rest.len -= one.len + (comma ? 1 : 0);
    }
    return false;
}

/* Like initgroups(3): the primary group and the groups that list the user. */
static void find_groups(struct atoll_agent *a, struct atoll_agent_user *user)
{
    const char *text = load(&a->group, GROUP);
    struct field f[GROUP_FIELDS];

    user->groups[0] = user->gid;
    user->group_count = 1;
    while (user->group_count < ATOLL_AGENT_GROUPS_MAX && next_line(&text, f, GROUP_FIELDS)) {
        uint32_t gid;
        if (is_member(&f[3], user->name) && field_id(&f[2], &gid) && gid != user->gid)
            user->groups[user->group_count++] = gid;
    }
}

static int set_user(struct atoll_agent_user *user, const char *name, uint32_t uid, uint32_t gid,
                    const char *home, struct atoll_error *err)
{
    user->uid = uid;
    user->gid = gid;
    if (atoll_text_copy(user->name, sizeof(user->name), name) < 0 ||
        atoll_text_copy(user->home, sizeof(user->home), home) < 0)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, ENAMETOOLONG, "user name is too long");
    return 0;
}

/* Ids and home of the default user come from the config, so that the tenant cannot change them. */
static int default_user(struct atoll_agent *a, struct atoll_agent_user *user,
                        struct atoll_error *err)
{
    const struct atoll_agent_config *c = &a->config;
    int r;

    (void)find_passwd(a, c->default_user, 0, user);
    r = set_user(user, c->default_user, c->default_uid, c->default_gid, c->default_home, err);
    if (r == 0)
        find_groups(a, user);
    return r;
}

static int find_user(struct atoll_agent *a, const char *name, struct atoll_agent_user *ret_user,
                     struct atoll_error *err)
{
    const struct atoll_agent_config *c = &a->config;
    struct atoll_agent_user *user = ret_user;
    uint32_t uid = UINT32_MAX;
    bool number = text_id(name, &uid);
    int r = 0;

    user->group_count = 0;
    user->as_root = false;
    user->start = c->workdir;
    (void)snprintf(user->shell, sizeof(user->shell), SHELL_DEFAULT);
    if (*name == '\0' || strcmp(name, c->default_user) == 0 || (number && uid == c->default_uid))
        return default_user(a, user, err);
    if (!c->many_ids)
        return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, EPERM,
                          "user %.64s is not available: only one user id is mapped into this "
                          "sandbox, that of %s",
                          name, c->default_user);
    if (find_passwd(a, name, 0, user) || (number && find_passwd(a, NULL, uid, user)))
        ;
    else if (a->first.default_user && strcmp(name, a->first.default_user) == 0)
        r = set_user(user, name, a->first.default_uid, a->first.default_gid, a->first.default_home,
                     err);
    else if (number)
        r = set_user(user, name, uid, uid, "/", err);
    else if (strcmp(name, "root") == 0)
        r = set_user(user, "root", 0, 0, "/root", err);
    else
        r = atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, ESRCH, "unknown user %.64s", name);
    if (r == 0)
        find_groups(a, user);
    return r;
}

int atoll_agent_group_find(struct atoll_agent *a, const char *name, uint32_t *ret_gid,
                           struct atoll_error *err)
{
    const char *text = load(&a->group, GROUP);
    struct field f[GROUP_FIELDS];

    while (next_line(&text, f, GROUP_FIELDS))
        if (f[0].len > 0 && field_is(&f[0], name) && field_id(&f[2], ret_gid))
            return 0;
    if (text_id(name, ret_gid))
        return 0;
    return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, ENOENT, "unknown group %.64s", name);
}

int atoll_agent_owner_find(struct atoll_agent *a, const char *owner, const char *group,
                           uint32_t *ret_uid, uint32_t *ret_gid, struct atoll_error *err)
{
    struct atoll_agent_user user;
    uint32_t uid = UINT32_MAX, gid = UINT32_MAX;
    int r = 0;

    if (*owner) {
        r = atoll_agent_user_find(a, owner, &user, err);
        uid = user.uid;
    }
    if (r >= 0 && *group)
        r = atoll_agent_group_find(a, group, &gid, err);
    if (r < 0)
        return r;
    *ret_uid = uid;
    *ret_gid = gid;
    return 0;
}

const char *atoll_agent_user_name(struct atoll_agent *a, uint32_t uid, char *out)
{
    struct atoll_agent_user user;

    if (uid == a->config.default_uid)
        (void)snprintf(out, ATOLL_AGENT_NAME_MAX, "%s", a->config.default_user);
    else if (find_passwd(a, NULL, uid, &user))
        (void)snprintf(out, ATOLL_AGENT_NAME_MAX, "%s", user.name);
    else
        (void)snprintf(out, ATOLL_AGENT_NAME_MAX, "%u", uid);
    return out;
}

const char *atoll_agent_group_name(struct atoll_agent *a, uint32_t gid, char *out)
{
    const char *text = load(&a->group, GROUP);
    struct field f[GROUP_FIELDS];
    uint32_t line_gid;

    while (next_line(&text, f, GROUP_FIELDS))
        if (field_id(&f[2], &line_gid) && line_gid == gid &&
            field_copy(&f[0], out, ATOLL_AGENT_NAME_MAX))
            return out;
    (void)snprintf(out, ATOLL_AGENT_NAME_MAX, "%u", gid);
    return out;
}

int atoll_agent_user_find(struct atoll_agent *a, const char *name,
                          struct atoll_agent_user *ret_user, struct atoll_error *err)
{
    const char *colon = strchr(name, ':');
    char text[sizeof(ret_user->name)];
    uint32_t gid;
    int r;

    if (!colon)
        return find_user(a, name, ret_user, err);
    if ((size_t)(colon - name) >= sizeof(text))
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, ENAMETOOLONG, "user name is too long");
    memcpy(text, name, (size_t)(colon - name));
    text[colon - name] = '\0';
    r = find_user(a, text, ret_user, err);
    if (r == 0)
        r = atoll_agent_group_find(a, colon + 1, &gid, err);
    if (r < 0)
        return r;
    if (gid != ret_user->gid && !a->config.many_ids)
        return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, EPERM,
                          "group %.64s is not available: only one group id is mapped into this "
                          "sandbox",
                          colon + 1);
    ret_user->gid = gid;
    find_groups(a, ret_user);
    return 0;
}

/* Programs expect that they can write to their home: as with `useradd -m`, it exists. */
static void make_home(const struct atoll_agent_user *user)
{
    ATOLL_AUTOCLOSE int fd = -1;

    if (mkdir(user->home, 0755) < 0)
        return;
    fd = open(user->home, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd >= 0)
        (void)!fchown(fd, user->uid, user->gid);
}

int atoll_agent_on_user(struct atoll_agent *a, uint32_t request ATOLL_UNUSED, const void *message,
                        struct atoll_error *err)
{
    const struct atoll_am_user *msg = message;
    struct atoll_agent_user user;
    int r = atoll_agent_user_find(a, msg->user, &user, err);

    if (r < 0)
        return r;
    if (!a->first.default_user)
        a->first = a->config;
    if (user.uid != 0)
        make_home(&user);
    a->chosen = user;
    a->config.default_user = a->chosen.name;
    a->config.default_home = a->chosen.home;
    a->config.default_uid = a->chosen.uid;
    a->config.default_gid = a->chosen.gid;
    return 0;
}
