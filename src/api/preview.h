#pragma once
#include "access/previews.h"
#include "api/api.h"

/*
 * Previews: HTTP servers inside sandboxes, reachable from outside at http://<port>-<id>.<domain>/
 * or, for programs, below /preview/<id>/<port>/. A request goes only to a connection that is made
 * inside the sandbox; a preview gives no access to the daemon, to the agent or to the host's
 * network.
 *
 * A preview is private unless it was made public: the first visit presents the token, later ones
 * the cookie that it set. A missing preview and one without access get the same response.
 */
struct atoll_preview_server;

/* The addresses of the daemon as seen from outside. The strings are borrowed. */
struct atoll_preview_site {
    const char *domain;       /* "localhost" */
    uint16_t port, tls_port;  /* 0: not served */
    const char *const *names; /* host names accepted over TCP; NULL-terminated, or NULL */
};

struct atoll_preview_server *atoll_preview_server_new(struct atoll_api *api,
                                                      const struct atoll_api_config *config);
/* Call after the HTTP server is freed. */
struct atoll_preview_server *atoll_preview_server_free(struct atoll_preview_server *server);

/* Serves the request if it is for a preview, or refuses it if its host is not ours. Returns
 * false if the request is for the API. */
bool atoll_preview_serve(struct atoll_preview_server *server, struct atoll_http_request *req);
/* Passes a request on to the port, for a facade that has checked the access and does not leave its own
 * credentials in the target. Previews must be enabled. */
void atoll_preview_pass(struct atoll_api *api, struct atoll_http_request *req,
                        const char *sandbox_id, uint16_t port, const char *target);
/* Answers a request that could not be passed on, in the format of a facade. */
typedef void atoll_preview_failed_fn(struct atoll_http_request *req, int status, const char *text);
/* The same for a target below the path `base` of the API's own host: as below /preview/, credentials and
 * cookies are removed, and pages have an opaque origin. */
void atoll_preview_pass_below(struct atoll_api *api, struct atoll_http_request *req,
                              const char *sandbox_id, uint16_t port, const char *base,
                              const char *target, atoll_preview_failed_fn *answer);
/* Answers as a preview does that does not exist. */
void atoll_preview_refuse(struct atoll_http_request *req);
/* Number of requests and tunnels in progress. */
size_t atoll_preview_active(const struct atoll_preview_server *server);

/* The ports that previews forward to; NULL if previews are disabled. */
struct atoll_ports *atoll_api_ports(const struct atoll_api *api);
/* The previews of the API's configuration; NULL if previews are disabled. */
struct atoll_previews *atoll_api_previews(const struct atoll_api *api);
const struct atoll_preview_site *atoll_api_site(const struct atoll_api *api);

/* Publishes the port of an existing preview at an address of the host, as atoll_published_open().
 * Previews must be enabled. */
int atoll_preview_publish(struct atoll_api *api, const char *sandbox_id, uint16_t port,
                          const char *address, struct atoll_preview_view *ret,
                          struct atoll_error *err) ATOLL_MUST_CHECK;
/* Closes the listener of a port whose preview is removed. */
void atoll_preview_unpublish(struct atoll_api *api, const char *sandbox_id, uint16_t port);

#define ATOLL_PREVIEW_URL_MAX 512
/* The URL for browsers; "" when the daemon serves no TCP address. */
void atoll_preview_url(const struct atoll_preview_site *site, const struct atoll_preview_view *view,
                       char *out);
/* The path below the address of the API. */
void atoll_preview_path_url(const struct atoll_preview_view *view, char *out);
