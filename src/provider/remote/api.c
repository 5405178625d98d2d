#include "provider/remote/api.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define SEND_MS 300000
#define SEND_TRIES 4

char *atoll_remote_dump(json_t *message)
{
    char *text = message ? json_dumps(message, JSON_COMPACT) : NULL;

    json_decref(message);
    return text;
}

json_t *atoll_remote_answer_json(const struct atoll_remote_answer *answer)
{
    return json_loadb((const char *)atoll_buf_head(&answer->body), atoll_buf_size(&answer->body), 0,
                      NULL);
}

int atoll_remote_api_ask(const struct atoll_remote_api *api, const struct atoll_sync_call *call,
                         const char *what, const char *method, const char *path, json_t *body,
                         struct atoll_remote_answer *ret, struct atoll_error *err)
{
    ATOLL_AUTOFREE char *text = body ? atoll_remote_dump(body) : NULL, *url = NULL;
    char id[96], trace[ATOLL_TRACE_TEXT_MAX], parent[96];
    /* Headers of this request, before those of all requests; the list does not own them. */
    struct curl_slist first = {.data = id, .next = api->headers}, second = {.data = parent};
    struct atoll_remote_request request = {.what = what,
                                           .method = method,
                                           .headers = api->headers,
                                           .body = text,
                                           .body_len = text ? strlen(text) : 0,
                                           .header = api->header,
                                           .timeout_ms = api->timeout_ms};

    *ret = (struct atoll_remote_answer){0};
    if (asprintf(&url, "%s%s", api->url, path) < 0)
        url = NULL;
    if (!url || (body && !text))
        return atoll_fail_errno(err, ENOMEM, "%s", what);
    request.url = url;
    if (call->origin.request_id[0]) {
        (void)snprintf(id, sizeof(id), "X-Request-Id: %s", call->origin.request_id);
        request.headers = &first;
    }
    if (call->origin.trace.id[0]) {
        (void)snprintf(parent, sizeof(parent), "traceparent: %s",
                       atoll_trace_format(&call->origin.trace, trace));
        second.next = (struct curl_slist *)(uintptr_t)request.headers;
        request.headers = &second;
    }
    return atoll_remote_http_ask(api->http, call, &request, ret, err);
}

int atoll_remote_api_refused(const struct atoll_remote_api *api, const char *what,
                             const struct atoll_remote_answer *answer, struct atoll_error *err)
{
    return atoll_remote_refused(err, api->service, what, answer->status,
                                (const char *)atoll_buf_head(&answer->body),
                                atoll_buf_size(&answer->body), answer->retry_after_s, api->secret);
}

int atoll_remote_api_json(const struct atoll_remote_api *api, const struct atoll_sync_call *call,
                          const char *what, const char *method, const char *path, json_t *body,
                          json_t **ret_json, struct atoll_error *err)
{
    ATOLL_REMOTE_AUTOANSWER struct atoll_remote_answer answer;
    int r = atoll_remote_api_ask(api, call, what, method, path, body, &answer, err);

    if (r < 0)
        return r;
    if (answer.status < 200 || answer.status > 299)
        return atoll_remote_api_refused(api, what, &answer, err);
    if (!ret_json)
        return 0;
    *ret_json = atoll_remote_answer_json(&answer);
    return *ret_json ? 0
                     : atoll_fail(err, ATOLL_ERR_UNAVAILABLE, EBADMSG,
                                  "%s: the answer of %s is not JSON", what, api->service->name);
}

int atoll_remote_api_send(const struct atoll_remote_api *api, const struct atoll_sync_call *call,
                          const char *what, const char *path, const char *content_type,
                          const char *more_header, const void *bytes, size_t n,
                          struct atoll_error *err)
{
    ATOLL_REMOTE_AUTOANSWER struct atoll_remote_answer answer = {0};
    ATOLL_REMOTE_AUTOSLIST struct curl_slist *headers = NULL;
    ATOLL_AUTOFREE char *url = NULL;
    struct atoll_remote_request request = {.what = what,
                                           .method = "POST",
                                           .body = bytes,
                                           .body_len = n,
                                           .timeout_ms = SEND_MS,
                                           .tries = SEND_TRIES};
    int r = 0;

    if (asprintf(&url, "%s%s", api->url, path) < 0)
        return atoll_fail_errno(err, ENOMEM, "%s", what);
    for (const struct curl_slist *h = api->headers; r == 0 && h; h = h->next)
        if (strncasecmp(h->data, "Content-Type:", 13) != 0)
            r = atoll_remote_header(&headers, err, "%s", h->data);
    if (r == 0)
        r = atoll_remote_header(&headers, err, "%s", content_type);
    if (r == 0 && more_header)
        r = atoll_remote_header(&headers, err, "%s", more_header);
    if (r == 0)
        r = atoll_remote_header(&headers, err, "Expect:");
    if (r < 0)
        return r;
    request.url = url;
    request.headers = headers;
    r = atoll_remote_http_ask(api->http, call, &request, &answer, err);
    if (r == 0 && (answer.status < 200 || answer.status > 299))
        r = atoll_remote_api_refused(api, what, &answer, err);
    return r;
}

bool atoll_remote_is_unconfirmed(long status)
{
    return status == 0 || status >= 500 || status == 408 || (status >= 200 && status < 300);
}
