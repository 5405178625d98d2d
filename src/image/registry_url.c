/*
 * Addresses of registries, by libcurl's parser: the same that makes the connections.
 */
#include <curl/curl.h>
#include <stdio.h>
#include <string.h>
#include "image/registry_internal.h"

static void auto_url(CURLU **u)
{
    curl_url_cleanup(*u);
}

static bool get_part(CURLU *u, CURLUPart part, char *out, size_t cap)
{
    char *text = NULL;
    CURLUcode code = curl_url_get(u, part, &text, 0);
    bool fits = code == CURLUE_OK && strlen(text) < cap;

    if (fits)
        memcpy(out, text, strlen(text) + 1);
    curl_free(text);
    return fits;
}

bool atoll_image_url_split(const char *url, struct atoll_image_url *ret)
{
    ATOLL_CLEANUP(auto_url) CURLU *u = curl_url();
    char port[8] = "";

    *ret = (struct atoll_image_url){0};
    if (!u || curl_url_set(u, CURLUPART_URL, url, CURLU_DISALLOW_USER) != CURLUE_OK ||
        !get_part(u, CURLUPART_SCHEME, ret->scheme, sizeof(ret->scheme)) ||
        !get_part(u, CURLUPART_HOST, ret->host, sizeof(ret->host)))
        return false;
    if (get_part(u, CURLUPART_PORT, port, sizeof(port)))
        (void)snprintf(ret->authority, sizeof(ret->authority), "%s:%s", ret->host, port);
    else
        (void)snprintf(ret->authority, sizeof(ret->authority), "%s", ret->host);
    (void)get_part(u, CURLUPART_PATH, ret->path, sizeof(ret->path));
    return strcmp(ret->scheme, "https") == 0 || strcmp(ret->scheme, "http") == 0;
}

bool atoll_image_url_join(const char *base, const char *location, char out[ATOLL_IMAGE_URL_MAX])
{
    ATOLL_CLEANUP(auto_url) CURLU *u = curl_url();

    return u && curl_url_set(u, CURLUPART_URL, base, 0) == CURLUE_OK &&
           curl_url_set(u, CURLUPART_URL, location, CURLU_DISALLOW_USER) == CURLUE_OK &&
           get_part(u, CURLUPART_URL, out, ATOLL_IMAGE_URL_MAX);
}
