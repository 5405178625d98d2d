#include "api/api_internal.h"
#include "api/rest/rest.h"
#include "base/rand.h"

const struct atoll_routes *const atoll_api_routes[] = {
    &atoll_rest_routes,
};
const size_t atoll_api_routes_count = ATOLL_ARRAY_LEN(atoll_api_routes);

struct atoll_api *atoll_api_new(const struct atoll_api_config *config)
{
    struct atoll_api *api = atoll_api_alloc(sizeof(*api));

    api->config = *config;
    atoll_list_init(&api->sessions);
    atoll_rand_id(api->id_prefix, sizeof(api->id_prefix) - 1);
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
    free(api);
    return NULL;
}

void atoll_api_serve(void *arg, struct atoll_http_request *req)
{
    atoll_api_call_start(arg, req);
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
