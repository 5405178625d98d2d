/*
 * Hints for requests that no provider can serve: which kind of provider could, and how the operator
 * sets it up.
 */
#include <stdio.h>
#include <string.h>
#include "base/text.h"
#include "engine/provider/providers.h"
#include "engine/provider/routing.h"

static bool is_set_up(const struct atoll_route_kind *kind, const struct atoll_route_offer *offers,
                      size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(offers[i].kind ? offers[i].kind : offers[i].name, kind->name) == 0)
            return true;
    return false;
}

void atoll_advise_kind(const struct atoll_route_kind *kind, struct atoll_error *err)
{
    atoll_advise(
        err,
        "%s is not set up. The operator of the daemon adds these lines to " ATOLL_PROVIDERS_FILE
        " (only the second if the file has `providers:` already) and %s; then `atoll providers` "
        "shows its state\nproviders:\n  %s: %s",
        kind->name, kind->at_start ? "restarts atolld" : "sends atolld a SIGHUP, or restarts it",
        kind->name, kind->settings);
}

void atoll_advise_name(const struct atoll_route_kinds *kinds, const char *name,
                       struct atoll_error *err)
{
    char words[100] = "";
    size_t at = 0;

    for (size_t i = 0; i < kinds->count; i++)
        if (strcmp(kinds->list[i].name, name) == 0) {
            atoll_advise_kind(&kinds->list[i], err);
            return;
        }
    for (size_t i = 0; i < kinds->count && at < sizeof(words); i++)
        at += (size_t)snprintf(words + at, sizeof(words) - at, "%s%s", i ? ", " : "",
                               kinds->list[i].name);
    if (*words && atoll_text_is_name(name))
        atoll_advise(err,
                     "`atoll providers` lists the providers. The operator of the daemon can set up "
                     "providers of these kinds in " ATOLL_PROVIDERS_FILE ", under any name: %s",
                     words);
}

/* Lists the known isolations, if `word` is not one of them. */
static void advise_isolation(const struct atoll_route_kinds *kinds, const char *word,
                             struct atoll_error *err)
{
    char words[100] = "";
    size_t at = 0;

    for (size_t i = 0; i < kinds->count && at < sizeof(words); i++) {
        const char *isolation = kinds->list[i].caps.isolation;

        if (strcmp(isolation, word) == 0)
            return;
        if (!strstr(words, isolation)) /* several kinds have the same one */
            at +=
                (size_t)snprintf(words + at, sizeof(words) - at, "%s%s", i ? ", " : "", isolation);
    }
    if (*words)
        atoll_advise(err, "isolation can be one of these: %s", words);
}

/* Names a provider that could serve the request if it were named in it, or a kind that could if it
 * were set up. */
static void advise_other(const struct atoll_route_request *request,
                         const struct atoll_route_offer *offers, size_t count,
                         const struct atoll_route_kinds *kinds, struct atoll_error *err)
{
    struct atoll_route_request w = *request;

    for (size_t i = 0; !request->provider && i < count; i++) {
        w.provider = offers[i].name;
        if (offers[i].named_only && atoll_route_could(&w, &offers[i])) {
            atoll_advise(err, "provider %s can, but is used only for requests that name it",
                         w.provider);
            return;
        }
    }
    w.provider = NULL;
    for (size_t i = 0; i < kinds->count; i++) {
        const struct atoll_route_offer would = {
            .name = kinds->list[i].name, .caps = &kinds->list[i].caps, .has_image = true};

        if (!is_set_up(&kinds->list[i], offers, count) && atoll_route_could(&w, &would)) {
            atoll_advise_kind(&kinds->list[i], err);
            return;
        }
    }
    if (w.isolation)
        advise_isolation(kinds, w.isolation, err);
}

void atoll_route_advise(const struct atoll_route_request *given,
                        const struct atoll_route_offer *offers, size_t count,
                        const struct atoll_route_kinds *kinds, struct atoll_error *err)
{
    struct atoll_route_request w = *given;
    bool known = false;

    if (w.provider && strcmp(w.provider, "auto") == 0)
        w.provider = NULL;
    for (size_t i = 0; i < count; i++)
        known |= !w.provider || strcmp(offers[i].name, w.provider) == 0;
    if (w.provider && !known)
        atoll_advise_name(kinds, w.provider, err);
    else if (err->kind == ATOLL_ERR_UNIMPLEMENTED)
        advise_other(&w, offers, count, kinds, err);
    else if (err->kind == ATOLL_ERR_UNAVAILABLE)
        atoll_advise(err, "`atoll providers` shows the state of each; one that is down gets "
                          "sandboxes again as soon as it answers");
}
