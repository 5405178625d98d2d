/*
 * Requests about git (docs/git.md): GET and DELETE have their members in the query, others in the body.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "base/buf.h"
#include "client/link.h"
#include "net/url.h"

static int add_parameter(struct atoll_buf *out, const char *name, const json_t *value)
{
    char number[32];
    const char *text = json_string_value(value);
    int r = atoll_buf_appendf(out, "%c%s=", memchr(out->data, '?', out->len) ? '&' : '?', name);

    if (json_is_number(value)) {
        (void)snprintf(number, sizeof(number), "%.0f", json_number_value(value));
        text = number;
    }
    return r < 0 ? r : atoll_url_encode(out, text ? text : "true", true);
}

static int add_query(struct atoll_link_target *target, json_t *request, struct atoll_error *err)
{
    struct atoll_buf text;
    const char *name;
    json_t *value, *item;
    size_t i;
    int r;

    atoll_buf_init(&text, sizeof(target->text) - 1);
    r = atoll_buf_appends(&text, target->text);
    json_object_foreach(request, name, value)
    {
        if (r == 0 && !json_is_array(value))
            r = add_parameter(&text, name, value);
        if (json_is_array(value))
            json_array_foreach(value, i, item) r = r < 0 ? r : add_parameter(&text, name, item);
    }
    if (r == 0)
        (void)snprintf(target->text, sizeof(target->text), "%s", atoll_buf_str(&text));
    atoll_buf_done(&text);
    return r < 0 ? atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, E2BIG, "too many arguments") : 0;
}

int atoll_link_git_target(struct atoll_link_target *ret, const char *method, const char *sandbox_id,
                          const char *operation, json_t *request, struct atoll_error *err)
{
    int r = atoll_link_check_id("sandbox", sandbox_id, err);

    if (r == 0 && (!*operation || operation[strspn(operation, "abcdefghijklmnopqrstuvwxyz/")]))
        r = atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                       "an operation of git is a word such as \"status\" (got \"%.64s\")",
                       operation);
    if (r == 0)
        r = atoll_link_target(ret, err, "/api/sandboxes/%s/git", sandbox_id);
    if (r == 0)
        (void)snprintf(ret->text + strlen(ret->text), sizeof(ret->text) - strlen(ret->text), "/%s",
                       operation);
    return r == 0 && *method != 'P' ? add_query(ret, request, err) : r;
}

static int ask(struct atoll_client *client, const char *sandbox_id, const char *method,
               const char *operation, const char *request_json, char **ret_json,
               struct atoll_error *err)
{
    ATOLL_AUTOJSON json_t *request = json_loads(request_json ? request_json : "{}", 0, NULL);
    struct atoll_link_target target;
    int r;

    if (!json_is_object(request))
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "the request must be the text of a JSON object");
    r = atoll_link_git_target(&target, method, sandbox_id, operation, request, err);
    if (r < 0)
        return r;
    return atoll_link_call_text(client, method, target.text,
                                *method == 'P' ? request_json ? request_json : "{}" : NULL,
                                ret_json, err);
}

int atoll_client_git(struct atoll_client *client, const char *sandbox_id, const char *method,
                     const char *operation, const char *request_json, char **ret_json,
                     struct atoll_client_error *error)
{
    struct atoll_error err;
    int r = ask(client, sandbox_id, method, operation, request_json, ret_json, &err);
    return atoll_link_conclude(client, r, &err, error);
}
