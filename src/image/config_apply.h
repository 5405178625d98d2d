#pragma once
#include "image/recipe.h"

/*
 * What an expanded step does to the `config` object of an OCI image: ENV, LABEL, EXPOSE, VOLUME, WORKDIR,
 * USER, ENTRYPOINT, CMD, SHELL, HEALTHCHECK, STOPSIGNAL, ONBUILD change it; ADD, ARG, COPY, RUN and
 * MAINTAINER do not (MAINTAINER is the image's `author`). Pure.
 *
 * ENTRYPOINT removes a Cmd that came with the base image, as Docker does; `*cmd_set` says whether the Cmd
 * is this stage's own. Begin a stage with false. The shell form of CMD and ENTRYPOINT is put behind Shell
 * (default /bin/sh -c). A relative WORKDIR is below the one before. INVALID_ARGUMENT ("line N: …").
 */
int atoll_image_config_apply(json_t *config, const struct atoll_recipe_step *step, bool *cmd_set,
                             struct atoll_error *err) ATOLL_MUST_CHECK;
/* The words of a RUN or of Cmd/Entrypoint in shell form: Shell of the config, then the text. */
json_t *atoll_image_config_shell(const json_t *config, const char *text);
