#include <string.h>
#include "access/answers.h"
#include "api/api_internal.h"
#include "api/lease.h"
#include "api/preview.h"
#include "api/repeats.h"
#include "base/clock.h"
#include "base/rand.h"

#define BUCKETS_MAX 4096
/* Total bytes of execution output buffered for slow clients, all tenants together. */
#define WAITING_MAX ((size_t)512 * 1024 * 1024)

bool atoll_api_next_route(size_t *pos, struct atoll_api_route *ret)
{
    size_t at = (*pos)++;

    for (const struct atoll_facade *const *f = atoll_facades; *f; f++)
        for (const struct atoll_routes *const *table = (*f)->tables; *table; table++) {
            if (at < (*table)->count) {
                const struct atoll_route *row = &(*table)->rows[at];
                *ret = (struct atoll_api_route){atoll_http_method_name(row->method), row->path,
                                                row->scope, (*f)->is_own, row->query};
                return true;
            }
            at -= (*table)->count;
        }
    return false;
}

/* Facades. */

static void open_facades(struct atoll_api *api)
{
    static const uint32_t zeros[ATOLL_FACADE_OPTIONS_MAX];
    const uint32_t *options = api->config.facade_options ? api->config.facade_options : zeros;

    for (size_t i = 0; atoll_facades[i]; i++) {
        const struct atoll_facade *f = atoll_facades[i];
        for (const struct atoll_routes *const *table = f->tables; *table; table++) {
            if (api->table_count == ATOLL_API_TABLES_MAX)
                abort();
            api->tables[api->table_count++] = *table;
        }
        if (f->open)
            api->facade_states[i] = f->open(api, options);
        options += f->option_count;
    }
}

static void close_facades(struct atoll_api *api)
{
    for (size_t i = 0; atoll_facades[i]; i++)
        if (atoll_facades[i]->close)
            atoll_facades[i]->close(ATOLL_TAKE_PTR(api->facade_states[i]));
}

void *atoll_api_facade_state(const struct atoll_api *api, const struct atoll_facade *facade)
{
    size_t i = 0;

    while (atoll_facades[i] != facade)
        i++;
    return api->facade_states[i];
}

struct atoll_api *atoll_api_new(const struct atoll_api_config *config)
{
    struct atoll_api *api = atoll_api_alloc(sizeof(*api));

    api->config = *config;
    api->key_rates = atoll_buckets_new(config->key_rate, BUCKETS_MAX);
    api->wrong_keys = atoll_buckets_new(config->wrong_key_rate, BUCKETS_MAX);
    api->wrong_signatures = atoll_buckets_new(config->wrong_key_rate, BUCKETS_MAX);
    if (!config->answers && atoll_answers_new(NULL, &api->own_answers, NULL) < 0)
        abort(); /* without a store, only a failed allocation could make this fail */
    api->answers = config->answers ? config->answers : api->own_answers;
    atoll_list_init(&api->leases);
    atoll_list_init(&api->repeats);
    atoll_shares_init(&api->waiting, WAITING_MAX);
    if (memcmp(api->config.url_secret, (uint8_t[ATOLL_URL_SECRET_BYTES]){0},
               ATOLL_URL_SECRET_BYTES) == 0)
        atoll_rand_bytes(api->config.url_secret, ATOLL_URL_SECRET_BYTES);
    atoll_list_init(&api->sessions);
    atoll_rand_id(api->id_prefix, sizeof(api->id_prefix) - 1);
    api->started_unix_ms = atoll_clock_unix_ms();
    if (config->previews)
        api->preview = atoll_preview_server_new(api, config);
    atoll_api_watch_tokens(api);
    open_facades(api);
    return api;
}

struct atoll_api *atoll_api_free(struct atoll_api *api)
{
    if (!api)
        return NULL;
    while (!atoll_list_empty(&api->sessions)) {
        struct atoll_api_session *session =
            ATOLL_CONTAINER_OF(api->sessions.next, struct atoll_api_session, node);
        atoll_list_remove(&session->node);
        session->drop(session);
    }
    atoll_api_drop_leases(api);
    atoll_repeats_drop(api);
    (void)atoll_answers_free(api->own_answers);
    close_facades(api);
    api->preview = atoll_preview_server_free(api->preview);
    api->token_events = atoll_events_unsubscribe(api->token_events);
    (void)atoll_buckets_free(api->key_rates);
    (void)atoll_buckets_free(api->wrong_keys);
    (void)atoll_buckets_free(api->wrong_signatures);
    atoll_shares_done(&api->waiting);
    free(api);
    return NULL;
}

void atoll_api_serve(void *arg, struct atoll_http_request *req)
{
    struct atoll_api *api = arg;

    for (size_t i = 0; atoll_facades[i]; i++)
        if (atoll_facades[i]->serve && atoll_facades[i]->serve(api->facade_states[i], req))
            return;
    if (!api->preview || !atoll_preview_serve(api->preview, req))
        atoll_api_call_start(api, req);
}

void atoll_api_drain(struct atoll_api *api)
{
    api->draining = true;
}

void atoll_api_session_add(struct atoll_api *api, struct atoll_api_session *session)
{
    atoll_list_push_back(&api->sessions, &session->node);
}

void atoll_api_session_remove(struct atoll_api_session *session)
{
    atoll_list_remove(&session->node);
}
