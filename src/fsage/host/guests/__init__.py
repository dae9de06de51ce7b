"""Kinds of target whose work guests do: the question to one, its target in a guest, and the work in a guest.

A state is an image there, made in one guest, and each cell has a copy of its own. What a guest does is the host side's
own work, by the same verbs, on its own disk and with a home of its own.
"""

from fsage.host.guests.target import GuestTarget as GuestTarget
from fsage.host.guests.target import Question as Question
from fsage.host.guests.work import Guest as Guest
