#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "base/memory.h"
#include "engine/json_memory.h"
#include "engine/network/secrets.h"
#include "store/secrets.h"
#include "task/outgoing.h"
#include "task/swarm_internal.h"

/*
 * The memory of a swarm that is at a hub: another Atoll, where it is the memory of a swarm too. It is read before an
 * agent runs, and what the agent has changed is sent afterwards, member by member: the last one wins. Requests run on
 * worker threads. The key is read from the tenant's secrets for each of them.
 */
#define TRIES 3
#define PAUSE_MS 300 /* and twice as long after each try */

struct atoll_hubs {
    struct atoll_swarms *swarms;
    struct atoll_outgoing *outgoing;
    bool closing;
};

static const struct atoll_remote_service service = {.name = "the hub",
                                                    .label = "hub",
                                                    .message = "error.message",
                                                    .code = "error.code"};

int atoll_hub_check_url(const char *url, struct atoll_error *err)
{
    const char *rest = strncmp(url, "https://", 8) == 0  ? url + 8
                       : strncmp(url, "http://", 7) == 0 ? url + 7
                                                         : NULL;

    if (strncmp(url, "quic://", 7) == 0)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EPROTONOSUPPORT,
                          "hub.url: quic:// is not supported; a hub is another Atoll, reached by "
                          "HTTP/2: give https://HOST:PORT");
    if (!rest || strcspn(rest, "/?#@ ") == 0 || strlen(url) > ATOLL_HUB_URL_MAX ||
        rest[strcspn(rest, "?#@ \"<>\\\r\n\t")])
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "hub.url must be the address of another Atoll, https://HOST:PORT");
    return 0;
}

static const json_t *hub_of(const struct atoll_swarm *s)
{
    return json_object_get(s->request, "hub");
}

bool atoll_swarm_has_hub(const struct atoll_swarm *s)
{
    return hub_of(s) != NULL;
}

/* --- requests --- */

struct ask {
    struct atoll_job job;
    struct atoll_hubs *hubs;
    char tenant[65], swarm_id[ATOLL_ID_LEN + 1], task_id[ATOLL_ID_LEN + 1];
    char url[ATOLL_HUB_URL_MAX + 128];
    struct curl_slist *headers; /* with the key */
    char *changes;              /* owned; NULL: none */
    json_t *memory;             /* the answer */
    struct atoll_error error;
    bool ran;
    void (*done)(struct atoll_tasks *tasks, const char *task_id, const struct atoll_error *error);
};

static void ask_free(struct ask *a)
{
    for (struct curl_slist *h = a->headers; h; h = h->next)
        explicit_bzero(h->data, strlen(h->data));
    curl_slist_free_all(a->headers);
    free(a->changes);
    json_decref(a->memory);
    free(a);
}

static int take_memory(struct ask *a, const struct atoll_remote_answer *answer)
{
    json_error_t why;

    if (answer->status < 200 || answer->status > 299)
        return atoll_remote_refused(&a->error, &service,
                                    a->changes ? "sending the memory" : "reading the memory",
                                    answer->status, (const char *)atoll_buf_head(&answer->body),
                                    atoll_buf_size(&answer->body), answer->retry_after_s, NULL);
    a->memory =
        atoll_json_load(atoll_buf_head(&answer->body), atoll_buf_size(&answer->body), 0, &why);
    return json_is_object(a->memory) ? 0
                                     : atoll_fail(&a->error, ATOLL_ERR_UNAVAILABLE, EPROTO,
                                                  "the hub's answer is not the memory of a swarm");
}

static int try_once(struct ask *a)
{
    const struct atoll_remote_request request = {
        .what = "the memory of the swarm",
        .method = a->changes ? "PATCH" : "GET",
        .url = a->url,
        .headers = a->headers,
        .body = a->changes,
        .body_len = a->changes ? strlen(a->changes) : 0,
        .answer_max = 2 * ATOLL_SWARM_MEMORY_MAX,
    };
    ATOLL_REMOTE_AUTOANSWER struct atoll_remote_answer answer = {0};
    int r = atoll_outgoing_ask(a->hubs->outgoing, a->tenant, &request, &answer, &a->error);

    return r < 0 ? r : take_memory(a, &answer);
}

/* On a worker. The same changes may be sent twice. */
static void run(struct atoll_job *job)
{
    struct ask *a = ATOLL_CONTAINER_OF(job, struct ask, job);
    int r = -1;

    for (int i = 0; r < 0 && i < TRIES; i++) {
        if (i > 0 && !atoll_outgoing_pause(a->hubs->outgoing, PAUSE_MS << (i - 1)))
            break;
        a->error = (struct atoll_error){0};
        r = try_once(a);
        if (r < 0 && a->error.kind != ATOLL_ERR_UNAVAILABLE &&
            a->error.kind != ATOLL_ERR_DEADLINE_EXCEEDED)
            break;
    }
    a->ran = true;
}

static void ended(struct atoll_job *job)
{
    struct ask *a = ATOLL_CONTAINER_OF(job, struct ask, job);
    struct atoll_swarms *swarms = a->hubs->swarms;
    struct atoll_swarm *s;
    struct atoll_error ignored;

    if (!a->hubs->closing) {
        s = atoll_swarm_get(swarms, NULL, a->swarm_id, &ignored);
        if (s && a->memory) {
            json_decref(s->memory);
            s->memory = json_incref(a->memory);
            atoll_swarm_save(s);
        }
        a->done(swarms->tasks, a->task_id, a->memory ? NULL : &a->error);
    }
    ask_free(a);
}

/* The key is in no other text than this header. */
static int add_headers(struct ask *a, struct atoll_store *store, const char *secret,
                       struct atoll_error *err)
{
    struct atoll_buf key;
    int r = atoll_remote_header(&a->headers, err, "Content-Type: application/json");

    if (r < 0 || !secret)
        return r;
    atoll_buf_init_erasing(&key, ATOLL_SECRET_VALUE_MAX + 1);
    r = atoll_store_secret_value(store, a->tenant, secret, &key, err);
    if (r == 0)
        r = atoll_remote_header(&a->headers, err, "Authorization: Bearer %s", atoll_buf_str(&key));
    atoll_buf_done(&key);
    return r;
}

static int make(struct atoll_swarm *s, struct ask *a, const json_t *changes,
                struct atoll_error *err)
{
    const json_t *hub = hub_of(s);
    const char *url = json_string_value(json_object_get(hub, "url"));
    size_t n = strlen(url);

    while (n > 0 && url[n - 1] == '/')
        n--;
    (void)snprintf(a->url, sizeof(a->url), "%.*s/api/swarms/%.64s/memory", (int)n, url,
                   json_string_value(json_object_get(hub, "swarm")));
    a->changes = changes ? atoll_json_dump(changes, JSON_COMPACT) : NULL;
    if (changes && !a->changes)
        return atoll_fail_errno(err, ENOMEM, "the memory of a swarm");
    return add_headers(a, s->swarms->store, json_string_value(json_object_get(hub, "secret")), err);
}

void atoll_hub_sync(struct atoll_swarm *s, const char *task_id, const json_t *changes,
                    void (*done)(struct atoll_tasks *tasks, const char *task_id,
                                 const struct atoll_error *error))
{
    struct atoll_hubs *hubs = s->swarms->hubs;
    struct ask *a = atoll_alloc(sizeof(*a));
    struct atoll_error error;
    int r;

    a->job = (struct atoll_job){.run = run, .done = ended, .owner = a->tenant};
    a->hubs = hubs;
    a->done = done;
    (void)snprintf(a->tenant, sizeof(a->tenant), "%s", s->tenant);
    (void)snprintf(a->swarm_id, sizeof(a->swarm_id), "%s", s->id);
    (void)snprintf(a->task_id, sizeof(a->task_id), "%.*s", ATOLL_ID_LEN, task_id);
    r = make(s, a, changes, &error);
    if (r == 0)
        r = atoll_outgoing_submit(hubs->outgoing, &a->job, &error);
    if (r < 0) {
        done(s->swarms->tasks, a->task_id, &error);
        ask_free(a);
    }
}

/* --- life --- */

int atoll_hubs_new(struct atoll_swarms *swarms, struct atoll_hubs **ret, struct atoll_error *err)
{
    struct atoll_hubs *hubs = atoll_alloc(sizeof(*hubs));
    int r = atoll_outgoing_new(swarms->tasks->config.loop, &service, &hubs->outgoing, err);

    hubs->swarms = swarms;
    if (r < 0) {
        (void)atoll_hubs_free(hubs);
        return r;
    }
    *ret = hubs;
    return 0;
}

struct atoll_hubs *atoll_hubs_free(struct atoll_hubs *hubs)
{
    if (!hubs)
        return NULL;
    hubs->closing = true;
    (void)atoll_outgoing_free(hubs->outgoing);
    free(hubs);
    return NULL;
}
