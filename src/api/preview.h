#pragma once
#include "access/previews.h"
#include "api/api.h"

/*
 * Previews: HTTP servers inside sandboxes, seen from outside at http://<port>-<id>.<domain>/ or,
 * for programs, below /preview/<id>/<port>/. Requests go to a connection made inside the sandbox
 * and to nothing else: there is no way from here to the daemon, to the agent or to the network.
 *
 * A preview is private unless it was made public: the first visit shows the token, later ones the
 * cookie it left. What is not there and what one may not see look the same.
 */
struct atoll_preview_server;

/* How the daemon is reached from outside. The texts are borrowed. */
struct atoll_preview_site {
    const char *domain;       /* "localhost" */
    uint16_t port, tls_port;  /* 0: none */
    const char *const *names; /* that the daemon answers to over TCP; NULL-terminated, or NULL */
};

struct atoll_preview_server *atoll_preview_server_new(struct atoll_api *api,
                                                      const struct atoll_api_config *config);
/* After the HTTP server is freed. */
struct atoll_preview_server *atoll_preview_server_free(struct atoll_preview_server *server);

/* Serves the request if it is for a preview, or for a host that is not us; false leaves it to the
 * API. */
bool atoll_preview_serve(struct atoll_preview_server *server, struct atoll_http_request *req);
/* Requests and tunnels under way. */
size_t atoll_preview_active(const struct atoll_preview_server *server);

/* What the API was made with; NULL where it has no previews. */
struct atoll_previews *atoll_api_previews(const struct atoll_api *api);
const struct atoll_preview_site *atoll_api_site(const struct atoll_api *api);

#define ATOLL_PREVIEW_URL_MAX 512
/* Where a browser finds it; "" when the daemon serves no TCP address. */
void atoll_preview_url(const struct atoll_preview_site *site, const struct atoll_preview_view *view,
                       char *out);
/* Below the address of the API. */
void atoll_preview_path_url(const struct atoll_preview_view *view, char *out);
