#include "api/e2b/template_requests.h"

#include <stdio.h>
#include <string.h>
#include "base/clock.h"

static struct atoll_e2b_request *request_of(struct atoll_list *node)
{
    return ATOLL_CONTAINER_OF(node, struct atoll_e2b_request, node);
}

static void forget(struct atoll_e2b_request *q)
{
    atoll_list_remove(&q->node);
    free(q);
}

void atoll_e2b_requests_init(struct atoll_e2b_plane *plane)
{
    atoll_list_init(&plane->requests);
}

void atoll_e2b_requests_done(struct atoll_e2b_plane *plane)
{
    ATOLL_LIST_FOREACH (&plane->requests, node)
        forget(request_of(node));
}

static void make_room(struct atoll_e2b_plane *plane, const char *tenant)
{
    struct atoll_e2b_request *oldest = NULL;
    size_t count = 0;

    ATOLL_LIST_FOREACH (&plane->requests, node) {
        if (strcmp(request_of(node)->tenant, tenant) != 0)
            continue;
        oldest = oldest ? oldest : request_of(node);
        count++;
    }
    if (count >= ATOLL_E2B_REQUESTS_MAX)
        forget(oldest);
}

struct atoll_e2b_request *atoll_e2b_request_new(struct atoll_e2b_plane *plane, const char *tenant)
{
    struct atoll_e2b_request *q = atoll_api_alloc(sizeof(*q));

    make_room(plane, tenant);
    atoll_version_id(q->id);
    (void)snprintf(q->tenant, sizeof(q->tenant), "%s", tenant);
    q->created_unix_ms = atoll_clock_unix_ms();
    atoll_list_push_back(&plane->requests, &q->node);
    return q;
}

struct atoll_e2b_request *atoll_e2b_request_find(struct atoll_e2b_plane *plane, const char *tenant,
                                                 const char *id)
{
    ATOLL_LIST_FOREACH (&plane->requests, node)
        if (strcmp(request_of(node)->id, id) == 0 && strcmp(request_of(node)->tenant, tenant) == 0)
            return request_of(node);
    return NULL;
}

struct atoll_e2b_place *atoll_e2b_place_of(struct atoll_e2b_plane *plane, const char *build_id)
{
    struct atoll_e2b_place *place;

    for (size_t i = 0; i < ATOLL_E2B_PLACES; i++)
        if (strcmp(plane->places[i].build_id, build_id) == 0)
            return &plane->places[i];
    place = &plane->places[plane->place_next++ % ATOLL_E2B_PLACES];
    *place = (struct atoll_e2b_place){0};
    (void)snprintf(place->build_id, sizeof(place->build_id), "%s", build_id);
    return place;
}
