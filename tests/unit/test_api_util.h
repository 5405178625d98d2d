#pragma once
#include "api/api.h"
#include "fake_engine.h"
#include "test_http_util.h"

/* The API over a real HTTP server, with an engine made of memory. */
static struct rig rig;
static struct atoll_api *api;

static void serve(void *arg, struct atoll_http_request *req)
{
    (void)arg;
    atoll_api_serve(api, req);
}

static int set_up(void **state)
{
    struct atoll_api_config config = {.engine = &fake};

    (void)state;
    fake_reset();
    rig_open(&rig, NULL, serve, NULL);
    config.loop = rig.loop;
    api = atoll_api_new(&config);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    rig.server = atoll_http_server_free(rig.server);
    api = atoll_api_free(api);
    rig_close(&rig);
    assert_int_equal(fake.readers, 0);
    fake_done();
    return 0;
}

static inline void assert_has(const char *text, const char *what)
{
    if (!strstr(text, what))
        fail_msg("no \"%s\" in:\n%s", what, text);
}
