#pragma once
#include "api/router.h"

/*
 * A facade is an API that this daemon serves: Atoll's own, or that of another product. It is
 * translation only: it turns requests into calls of the engine, sessions and contexts, and results
 * into its own formats. What two facades need is in api/kit/.
 *
 * Registration: the facade defines one struct atoll_facade, and facades.c lists it. Code outside of
 * the facade's folder reads this struct and knows no facade by name.
 *
 * A request is offered to serve() of each facade, in the order of the list; then to previews; then
 * the tables of all facades are searched for its path.
 */
struct atoll_api;

#define ATOLL_FACADES_MAX 8
#define ATOLL_FACADE_OPTIONS_MAX 16 /* of all facades together */

#define ATOLL_KEY_SPELLING_MAX 128
/* An API key as the clients of a facade write it. It is the same key in other characters: only the
 * own form is stored (access/access.h). */
struct atoll_key_spelling {
    /* Name of this form in the response that creates a key; NULL: it is not there, and len and write are
     * not set. */
    const char *field;
    const char *prefix; /* how the part of such texts starts that is secret */
    size_t len;         /* at most ATOLL_KEY_SPELLING_MAX */
    /* out holds len + 1 bytes. */
    void (*write)(const char *key, char *out);
    /* Writes the own form, ATOLL_KEY_LEN + 1 bytes; false if the text is not in this form. Takes
     * the same time for all texts of this form. */
    bool (*read)(const char *shown, char *out);
};

/* An option of atolld, a whole number from 0 to max. */
struct atoll_facade_option {
    const char *name, *env; /* --name, and the variable of the environment */
    uint32_t max;
    const char *fallback;
    const char *help;
};

struct atoll_facade {
    bool is_own;                              /* Atoll's own API, described in docs/openapi.json */
    const struct atoll_routes *const *tables; /* NULL-terminated */
    /* Labels: the daemon also answers the host names LABEL.DOMAIN, DOMAIN being that of previews.
     * NULL-terminated; or NULL. */
    const char *const *hosts;
    const struct atoll_key_spelling *key; /* NULL: clients write keys in their own form */
    const struct atoll_facade_option *options;
    size_t option_count;
    /* Makes the state of the facade for one api, for atoll_api_facade_state(). `options` has a value
     * for each option and is valid as long as the api. NULL: the facade has no state. */
    void *(*open)(struct atoll_api *api, const uint32_t *options);
    /* Called after the HTTP server is freed. */
    void (*close)(void *state);
    /* Serves a request that is not addressed by its path alone, but by host, header or signature;
     * false: the request is for others. NULL: there are no such requests. */
    bool (*serve)(void *state, struct atoll_http_request *req);
};

/* All facades; NULL-terminated, at most ATOLL_FACADES_MAX. */
extern const struct atoll_facade *const atoll_facades[];

/* Walks the options of all facades: NULL after the last. `index` is also the place of its value in
 * facade_options of struct atoll_api_config. */
const struct atoll_facade_option *atoll_facade_option_at(size_t index);
/* What open() of the facade returned. */
void *atoll_api_facade_state(const struct atoll_api *api, const struct atoll_facade *facade);
