"""wire/amqp091"""
