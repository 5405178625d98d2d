#!/bin/sh
# Starts the development server and asks for the page once, so that it is compiled when a client opens it.
cd /home/user || exit 1
(
    until curl -sf -o /dev/null http://localhost:3000; do
        sleep 0.2
    done
) &
exec npx next --turbo
