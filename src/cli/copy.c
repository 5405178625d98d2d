#include "cli/copy.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include "base/text.h"
#include "cli/print.h"

#define VOLUME "volume:"

struct atoll_cli_side atoll_cli_side_parse(const char *text)
{
    struct atoll_cli_side side = {.path = text};
    bool is_volume = strncmp(text, VOLUME, strlen(VOLUME)) == 0;
    const char *name = is_volume ? text + strlen(VOLUME) : text;
    size_t n = strcspn(name, ":/");

    if ((name[n] != ':' && !is_volume) || n >= sizeof(side.sandbox))
        return side;
    memcpy(side.sandbox, name, n);
    if (atoll_text_is_name(side.sandbox)) {
        side.remote = true;
        side.is_volume = is_volume;
        side.path = is_volume ? (name[n] ? name + n : "/") : name + n + 1;
    }
    return side;
}

void atoll_cli_copy_init(struct atoll_cli_copy *copy, struct atoll_cli *cli, const char *sandbox,
                         const char *user)
{
    *copy = (struct atoll_cli_copy){
        .cli = cli, .sandbox = sandbox, .user = user, .skipped = json_array()};
}

void atoll_cli_copy_done(struct atoll_cli_copy *copy)
{
    json_decref(copy->skipped);
    copy->skipped = NULL;
}

int atoll_cli_copy_target(const struct atoll_cli_copy *copy, const char *what, const char *path,
                          const char *query, struct atoll_link_target *ret, struct atoll_error *err)
{
    struct atoll_link_target base, user = {""};
    int r, n;

    r = atoll_link_target(&base, err, "?path=%s", path);
    if (r == 0 && copy->user)
        r = atoll_link_target(&user, err, "&user=%s", copy->user);
    if (r < 0)
        return r;
    n = snprintf(ret->text, sizeof(ret->text), "/api/%s/%s/files%s%.*s%.*s%s",
                 copy->is_volume ? "volumes" : "sandboxes", copy->sandbox, what,
                 (int)strlen(base.text), base.text, (int)strlen(user.text), user.text, query);
    if ((size_t)n >= sizeof(ret->text))
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, ENAMETOOLONG, "the path is too long");
    return 0;
}

int atoll_cli_copy_call(struct atoll_cli_copy *copy, const char *method, const char *what,
                        const char *path, const char *query, json_t **ret_reply,
                        struct atoll_error *err)
{
    struct atoll_link_target target;
    int r = atoll_cli_copy_target(copy, what, path, query, &target, err);
    return r < 0 ? r : atoll_cli_call(copy->cli, method, target.text, NULL, ret_reply, err);
}

void atoll_cli_copy_skip(struct atoll_cli_copy *copy, const char *path, const char *fmt, ...)
{
    char reason[ATOLL_ERROR_TEXT_MAX];
    va_list ap;

    va_start(ap, fmt);
    (void)vsnprintf(reason, sizeof(reason), fmt, ap);
    va_end(ap);
    atoll_cli_say("skipped %.300s: %s", path, reason);
    (void)json_array_append_new(copy->skipped,
                                json_pack("{s:s, s:s}", "path", path, "reason", reason));
}

bool atoll_cli_copy_goes_on(const struct atoll_error *err)
{
    switch (err->kind) {
    case ATOLL_ERR_NOT_FOUND:
    case ATOLL_ERR_PERMISSION_DENIED:
    case ATOLL_ERR_INVALID_ARGUMENT:
    case ATOLL_ERR_ALREADY_EXISTS:
    case ATOLL_ERR_FAILED_PRECONDITION:
        return true;
    default:
        return false;
    }
}

bool atoll_cli_copy_is_name(const char *name)
{
    size_t n = strlen(name);
    return n > 0 && n <= NAME_MAX && strcmp(name, ".") != 0 && strcmp(name, "..") != 0 &&
           !strchr(name, '/');
}

const char *atoll_cli_copy_basename(const char *path, char *out, size_t cap)
{
    size_t end = strlen(path), start;

    while (end > 0 && path[end - 1] == '/')
        end--;
    for (start = end; start > 0 && path[start - 1] != '/';)
        start--;
    if (end - start >= cap)
        return NULL;
    memcpy(out, path + start, end - start);
    out[end - start] = '\0';
    return atoll_cli_copy_is_name(out) ? out : NULL;
}

bool atoll_cli_copy_is_inner_link(const char *target, size_t depth)
{
    bool descended = false;

    if (target[0] == '/' || target[0] == '\0')
        return false;
    while (*target) {
        size_t n = strcspn(target, "/");
        if (n == 2 && target[0] == '.' && target[1] == '.') {
            /* ".." after a name: the name may itself be a link, so the result is unknown. */
            if (descended || depth-- == 0)
                return false;
        } else if (n > 0 && !(n == 1 && target[0] == '.')) {
            descended = true;
        }
        target += n + strspn(target + n, "/");
    }
    return true;
}
