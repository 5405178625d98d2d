/*
 * The list of facades: one line for each, here and in the includes.
 */
#include "api/daytona/daytona.h"
#include "api/e2b/e2b.h"
#include "api/facade.h"
#include "api/mcp/mcp.h"
#include "api/rest/rest.h"
#include "api/vercel/vercel.h"

const struct atoll_facade *const atoll_facades[] = {&atoll_rest_facade,    &atoll_e2b_facade,
                                                    &atoll_daytona_facade, &atoll_vercel_facade,
                                                    &atoll_mcp_facade,     NULL};

_Static_assert(ATOLL_ARRAY_LEN(atoll_facades) <= ATOLL_FACADES_MAX + 1, "ATOLL_FACADES_MAX");

const struct atoll_facade_option *atoll_facade_option_at(size_t index)
{
    for (const struct atoll_facade *const *f = atoll_facades; *f; f++) {
        if (index < (*f)->option_count)
            return &(*f)->options[index];
        index -= (*f)->option_count;
    }
    return NULL;
}
