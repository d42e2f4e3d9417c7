"""wire/stomp"""
