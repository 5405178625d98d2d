#include "tools/verify/box.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

/* Lifetime of our sandboxes: the daemon removes them if this program dies. */
#define LIFE_S 900

static int set_number(json_t *object, const char *key, double value)
{
    return value > 0 ? json_object_set_new(object, key, json_real(value)) : 0;
}

static int set_count(json_t *object, const char *key, unsigned value)
{
    return value > 0 ? json_object_set_new(object, key, json_integer((json_int_t)value)) : 0;
}

int atoll_box_create(struct atoll_box *box, struct atoll_client *client,
                     const struct atoll_box_options *options, struct atoll_error *err)
{
    ATOLL_AUTOJSON json_t *limits = json_pack("{s:i}", "timeoutSeconds", LIFE_S);
    ATOLL_AUTOJSON json_t *body = json_pack(
        "{s:O, s:[s], s:{s:s}, s:s}", "limits", limits, "waive", "all", "metadata", "purpose",
        "atoll verify", "networkMode", options->network ? options->network : "none");
    int r = !body || set_number(limits, "memoryMB", options->memory_mib) < 0 ||
            set_number(limits, "diskMB", options->disk_mib) < 0 ||
            set_number(limits, "cpuCores", options->cpus) < 0 ||
            set_count(limits, "pids", options->pids) < 0 ||
            set_count(limits, "inodes", options->inodes) < 0 ||
            (options->provider &&
             json_object_set_new(body, "provider", json_string(options->provider)) < 0) ||
            (options->template_name &&
             json_object_set_new(body, "template", json_string(options->template_name)) < 0) ||
            (options->secret &&
             json_object_set_new(body, "env", json_pack("{s:s}", "SECRET", options->secret)) < 0);

    *box = (struct atoll_box){.client = client};
    if (r)
        return atoll_fail_errno(err, ENOMEM, "request");
    r = atoll_link_call(client, "POST", "/api/sandboxes", body, &box->view, err);
    if (r == 0)
        (void)snprintf(box->id, sizeof(box->id), "%s", atoll_link_text(box->view, "id", ""));
    return r;
}

/* A sandbox of ours was found to be missing. One flag is enough: only one check runs at a time. */
static bool missed;

/* Notes a sandbox that another client removed. Not one that failed: an attack may have caused that. */
static void note_missing(const struct atoll_error *err)
{
    missed |= err->kind == ATOLL_ERR_NOT_FOUND || strstr(err->text, "is stopping") ||
              strstr(err->text, "being destroyed");
}

bool atoll_box_was_removed(const struct atoll_box *box)
{
    ATOLL_AUTOJSON json_t *view = NULL;
    struct atoll_link_target target;
    struct atoll_error err;
    bool was = missed;

    missed = false;
    if (was || !box || !*box->id)
        return was;
    if (atoll_link_target(&target, &err, "/api/sandboxes/%s", box->id) < 0)
        return false;
    if (atoll_link_call(box->client, "GET", target.text, NULL, &view, &err) < 0)
        return err.kind == ATOLL_ERR_NOT_FOUND;
    return strcmp(atoll_link_text(view, "state", ""), "stopping") == 0;
}

int atoll_box_destroy(struct atoll_box *box, struct atoll_error *err)
{
    struct atoll_link_target target;
    int r = atoll_link_target(&target, err, "/api/sandboxes/%s", box->id);

    if (r == 0)
        r = atoll_link_call(box->client, "DELETE", target.text, NULL, NULL, err);
    if (r < 0)
        note_missing(err);
    if (r == 0)
        box->id[0] = '\0';
    return r;
}

void atoll_box_done(struct atoll_box *box)
{
    struct atoll_error ignored;

    if (*box->id && atoll_box_destroy(box, &ignored) < 0)
        box->id[0] = '\0'; /* the daemon removes it after LIFE_S */
    json_decref(box->view);
    box->view = NULL;
}

bool atoll_box_waives(const struct atoll_box *box, const char *limit)
{
    const json_t *list = json_object_get(box->view, "waived");

    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *name = json_string_value(json_array_get(list, i));
        if (name && strcmp(name, limit) == 0)
            return true;
    }
    return false;
}

double atoll_box_limit(const struct atoll_box *box, const char *name)
{
    return atoll_link_number(json_object_get(box->view, "limits"), name, 0);
}

int atoll_box_put(const struct atoll_box *box, const char *host_path, const char *path,
                  struct atoll_error *err)
{
    ATOLL_AUTOCLOSE int fd = open(host_path, O_RDONLY | O_CLOEXEC);
    struct atoll_client_error error;

    if (fd < 0)
        return atoll_fail(err, ATOLL_ERR_NOT_FOUND, errno, "%.200s: %s", host_path,
                          strerror(errno));
    if (atoll_client_file_write_fd(box->client, box->id, NULL, path, 0755, fd, &error) < 0)
        return atoll_fail(err, (enum atoll_error_kind)error.code, error.errnum,
                          "copy the probe: %s", error.message);
    return 0;
}

static json_t *command(const char *user, const char *const *argv, const json_t *args,
                       double timeout_s)
{
    json_t *cmd = json_array();
    json_t *body = json_pack("{s:o}", "cmd", cmd);
    int r = body ? 0 : -1;

    for (size_t i = 0; r == 0 && argv[i]; i++)
        r = json_array_append_new(cmd, json_string(argv[i]));
    if (r == 0 && args)
        r = json_array_extend(cmd, (json_t *)args);
    if (r == 0 && user)
        r = json_object_set_new(body, "user", json_string(user));
    if (r == 0 && timeout_s > 0)
        r = json_object_set_new(body, "timeoutSeconds", json_real(timeout_s));
    if (r == 0)
        return body;
    json_decref(body);
    return NULL;
}

static int post(const struct atoll_box *box, const char *query, json_t *body, json_t **ret,
                struct atoll_error *err)
{
    ATOLL_AUTOJSON json_t *owned = body;
    char target[128];
    int r;

    if (!body)
        return atoll_fail_errno(err, ENOMEM, "request");
    (void)snprintf(target, sizeof(target), "/api/sandboxes/%s/execs%s", box->id, query);
    r = atoll_link_call(box->client, "POST", target, owned, ret, err);
    if (r < 0)
        note_missing(err);
    return r;
}

int atoll_box_exec(const struct atoll_box *box, const char *user, const char *const *argv,
                   const json_t *args, double timeout_s, json_t **ret, struct atoll_error *err)
{
    return post(box, "?wait=true", command(user, argv, args, timeout_s), ret, err);
}

int atoll_box_detach(const struct atoll_box *box, const char *user, const char *const *argv,
                     const json_t *args, struct atoll_error *err)
{
    return post(box, "", command(user, argv, args, 0), NULL, err);
}
